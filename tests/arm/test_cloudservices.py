from typing import Any

import pytest

from fairwarning.core.model import ImpactKind
from tests.arm.bodies import (
    COMPUTE,
    SERVICE,
    SERVICE_SCOPE,
    created,
    names,
    refused,
    visible_events,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

SERVICES = f"{COMPUTE}/cloudServices"
LOCATION = {"location": "local"}
WEB = f"{SERVICE}/roleInstances/Web_IN_0"


def roles(**sizes: int) -> dict[str, Any]:
    """Return a body with roles and their numbers of instances."""
    listed = [
        {"name": name, "sku": {"name": "Standard_D2_v2", "tier": "Standard", "capacity": size}}
        for name, size in sizes.items()
    ]
    return {"properties": {"roleProfile": {"roles": listed}}}


def service(arm: ArmHarness, **sizes: int) -> None:
    """Create a cloud service with these roles."""
    arm.group()
    created(arm.put(SERVICE, {**LOCATION, **roles(**sizes)}))


def instances(arm: ArmHarness) -> list[str]:
    """Return the names of the role instances."""
    return names(arm, f"{SERVICE}/roleInstances")


@pytest.mark.spec("C1")
def test_a_service_is_created_and_read() -> None:
    """GET, both listings, the roles and the instances agree with the created service."""
    with ArmHarness() as arm:
        service(arm, Web=2, Worker=1)
        document = arm.get(SERVICE).json
        assert document["id"] == f"{SUBSCRIPTION}{SERVICE}"
        assert document["type"] == "Microsoft.Compute/cloudServices"
        assert document["properties"]["provisioningState"] == "Succeeded"
        assert (
            document["properties"]["roleProfile"]
            == roles(Web=2, Worker=1)["properties"]["roleProfile"]
        )
        assert arm.get(SERVICES).json == {"value": [document]}
        assert arm.get("/providers/Microsoft.Compute/cloudServices").json == {"value": [document]}
        skus = {role["name"]: role["sku"] for role in arm.get(f"{SERVICE}/roles").json["value"]}
        assert {name: sku["capacity"] for name, sku in skus.items()} == {"Web": 2, "Worker": 1}
        assert instances(arm) == ["Web_IN_0", "Web_IN_1", "Worker_IN_0"]
        instance = arm.get(WEB).json
        assert instance["id"] == f"{SUBSCRIPTION}{WEB}"
        view = arm.get(f"{WEB}/instanceView").json
        assert [status["code"] for status in view["statuses"]][-1] == "PowerState/running"


@pytest.mark.parametrize(
    "value",
    [
        ["Web"],
        [{"sku": {"capacity": 1}}],
        [{"name": "Web", "sku": {"capacity": -1}}],
        [{"name": "Web", "sku": {"capacity": 201}}],
        {"name": "Web"},
    ],
)
def test_invalid_roles(value: object) -> None:
    """Invalid roles are refused, and no service is created."""
    with ArmHarness() as arm:
        arm.group()
        response = arm.put(SERVICE, {**LOCATION, "properties": {"roleProfile": {"roles": value}}})
        assert refused(response) == (400, "InvalidParameter")
        assert names(arm, SERVICES) == []


def test_roles_grow_and_shrink() -> None:
    """Instances come and go at the end of each role; a role that is left out is deleted."""
    with ArmHarness() as arm:
        service(arm, Web=2, Worker=2)
        assert arm.put(SERVICE, {**LOCATION, **roles(Web=3, Worker=1)}).status == 200
        arm.advance(60)
        assert sorted(instances(arm)) == ["Web_IN_0", "Web_IN_1", "Web_IN_2", "Worker_IN_0"]
        accepted = arm.patch(SERVICE, roles(Web=1))
        document = accepted.json["properties"]
        assert document["provisioningState"] == "Updating"
        assert [role["sku"]["capacity"] for role in document["roleProfile"]["roles"]] == [1]
        assert arm.patch(SERVICE, roles(Web=1)).status == 200
        arm.advance(60)
        assert arm.ended(accepted)["status"] == "Succeeded"
        assert instances(arm) == ["Web_IN_0"]


def test_an_old_capacity_is_not_restored() -> None:
    """After an instance is deleted, another change does not create it again."""
    with ArmHarness() as arm:
        service(arm, Web=2)
        arm.delete(f"{SERVICE}/roleInstances/Web_IN_1")
        arm.advance(60)
        assert arm.patch(SERVICE, {"tags": {"a": "b"}}).status == 200
        assert instances(arm) == ["Web_IN_0"]


@pytest.mark.spec("C1")
@pytest.mark.parametrize(
    ("action", "kind", "event"),
    [
        ("restart", ImpactKind.REBOOT, "Reboot"),
        ("reimage", ImpactKind.REIMAGE, ""),
        ("rebuild", ImpactKind.REIMAGE, ""),
        ("poweroff", ImpactKind.STOP, ""),
        ("start", ImpactKind.START, ""),
        ("delete", ImpactKind.DELETE, ""),
    ],
)
def test_actions(action: str, kind: ImpactKind, event: str) -> None:
    """An action applies to the named role instances or to all."""
    for body, expected in (
        ({"roleInstances": ["Web_IN_1"]}, {"Web_IN_1"}),
        ({"roleInstances": ["*"]}, {"Web_IN_0", "Web_IN_1"}),
    ):
        with ArmHarness() as arm:
            service(arm, Web=2)
            arm.poll(SERVICE_SCOPE)
            accepted = arm.post(f"{SERVICE}/{action}", body)
            assert accepted.status == 202, accepted.body
            assert {event_[0] for event_ in visible_events(arm, SERVICE_SCOPE)} == (
                {event} if event else set()
            )
            arm.advance(1200)
            assert arm.ended(accepted)["status"] == "Succeeded"
            assert {(impact.machine, impact.kind) for impact in arm.driver.impacts} == {
                (name, kind) for name in expected
            }


@pytest.mark.parametrize("action", ["restart", "reimage", "rebuild"])
def test_actions_on_an_instance(action: str) -> None:
    """An action applies to the role instance of the path."""
    with ArmHarness() as arm:
        service(arm, Web=2)
        accepted = arm.post(f"{SERVICE}/roleinstances/web_in_0/{action}")
        arm.advance(200)
        assert arm.ended(accepted)["status"] == "Succeeded"
        assert [impact.machine for impact in arm.driver.impacts] == ["Web_IN_0"]


def test_names_are_compared_without_case() -> None:
    """Names of role instances are case-insensitive in bodies and paths."""
    with ArmHarness() as arm:
        service(arm, Web=2)
        accepted = arm.post(f"{SERVICE}/restart", {"roleInstances": ["web_in_1", "WEB_IN_1"]})
        assert accepted.status == 202, accepted.body
        assert [impact.machine for impact in arm.driver.impacts] == ["Web_IN_1"]


def test_unknown_instances() -> None:
    """An unknown instance is refused and no action runs; a delete needs names."""
    with ArmHarness() as arm:
        service(arm, Web=1)
        assert refused(arm.get(f"{SERVICE}/roleInstances/x")) == (404, "ResourceNotFound")
        unknown = arm.post(f"{SERVICE}/restart", {"roleInstances": ["Web_IN_0", "x"]})
        assert unknown.status == 404
        invalid = arm.post(f"{SERVICE}/restart", {"roleInstances": [1]})
        assert refused(invalid) == (400, "InvalidParameter")
        assert refused(arm.post(f"{SERVICE}/delete")) == (400, "InvalidParameter")
        assert arm.driver.impacts == []


def test_a_service_is_deleted_with_its_instances() -> None:
    """The service exists until its last instance is deleted."""
    with ArmHarness() as arm:
        service(arm, Web=2)
        accepted = arm.delete(SERVICE)
        assert accepted.status == 202
        assert arm.get(SERVICE).json["properties"]["provisioningState"] == "Deleting"
        arm.advance(60)
        assert arm.ended(accepted)["status"] == "Succeeded"
        assert refused(arm.get(SERVICE)) == (404, "ResourceNotFound")
        assert not arm.exists(SERVICE_SCOPE)
        assert arm.delete(SERVICE).status == 204


def test_a_service_of_a_fleet_file() -> None:
    """A service of a fleet file can be read, and a write-back changes nothing."""
    with ArmHarness() as arm:
        arm.create_fleet()
        path = "/resourceGroups/fairwarning/providers/Microsoft.Compute/cloudServices/legacy"
        document = arm.get(path).json
        assert arm.put(path, document).status == 200
        assert arm.get(path).json == document
        assert names(arm, f"{path}/roleInstances") == ["FrontEnd_IN_0"]
