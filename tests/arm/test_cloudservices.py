from typing import Any

import pytest

from fairwarning.core.model import ImpactKind
from tests.arm.bodies import COMPUTE, SERVICE, SERVICE_SCOPE, created, names, refused, told
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

SERVICES = f"{COMPUTE}/cloudServices"
HERE = {"location": "local"}
WEB = f"{SERVICE}/roleInstances/Web_IN_0"


def roles(**sizes: int) -> dict[str, Any]:
    """Roles and how many instances each has."""
    listed = [
        {"name": name, "sku": {"name": "Standard_D2_v2", "tier": "Standard", "capacity": size}}
        for name, size in sizes.items()
    ]
    return {"properties": {"roleProfile": {"roles": listed}}}


def service(arm: ArmHarness, **sizes: int) -> None:
    """A cloud service with these roles."""
    arm.group()
    created(arm.put(SERVICE, {**HERE, **roles(**sizes)}))


def instances(arm: ArmHarness) -> list[str]:
    """The names of its role instances."""
    return names(arm, f"{SERVICE}/roleInstances")


@pytest.mark.spec("C1")
def test_a_service_is_made_and_read() -> None:
    """201 with its roles; then by GET, in both listings, role by role and instance by instance."""
    with ArmHarness() as arm:
        service(arm, Web=2, Worker=1)
        made = arm.get(SERVICE).json
        assert made["id"] == f"{SUBSCRIPTION}{SERVICE}"
        assert made["type"] == "Microsoft.Compute/cloudServices"
        assert made["properties"]["provisioningState"] == "Succeeded"
        assert (
            made["properties"]["roleProfile"] == roles(Web=2, Worker=1)["properties"]["roleProfile"]
        )
        assert arm.get(SERVICES).json == {"value": [made]}
        assert arm.get("/providers/Microsoft.Compute/cloudServices").json == {"value": [made]}
        shown = {one["name"]: one["sku"] for one in arm.get(f"{SERVICE}/roles").json["value"]}
        assert {name: sku["capacity"] for name, sku in shown.items()} == {"Web": 2, "Worker": 1}
        assert instances(arm) == ["Web_IN_0", "Web_IN_1", "Worker_IN_0"]
        one = arm.get(WEB).json
        assert one["id"] == f"{SUBSCRIPTION}{WEB}"
        view = arm.get(f"{WEB}/instanceView").json
        assert [status["code"] for status in view["statuses"]][-1] == "PowerState/running"


@pytest.mark.parametrize(
    "said",
    [
        ["Web"],
        [{"sku": {"capacity": 1}}],
        [{"name": "Web", "sku": {"capacity": -1}}],
        [{"name": "Web", "sku": {"capacity": 201}}],
        {"name": "Web"},
    ],
)
def test_what_is_no_role(said: object) -> None:
    """It is refused, and no service is made."""
    with ArmHarness() as arm:
        arm.group()
        answer = arm.put(SERVICE, {**HERE, "properties": {"roleProfile": {"roles": said}}})
        assert refused(answer) == (400, "InvalidParameter")
        assert names(arm, SERVICES) == []


def test_roles_grow_and_shrink() -> None:
    """At the end of each; a role that is left out goes whole; counted are those that stay."""
    with ArmHarness() as arm:
        service(arm, Web=2, Worker=2)
        assert arm.put(SERVICE, {**HERE, **roles(Web=3, Worker=1)}).status == 200
        arm.advance(60)
        assert sorted(instances(arm)) == ["Web_IN_0", "Web_IN_1", "Web_IN_2", "Worker_IN_0"]
        asked = arm.patch(SERVICE, roles(Web=1))
        shown = asked.json["properties"]
        assert shown["provisioningState"] == "Updating"
        assert [role["sku"]["capacity"] for role in shown["roleProfile"]["roles"]] == [1]
        assert arm.patch(SERVICE, roles(Web=1)).status == 200
        arm.advance(60)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert instances(arm) == ["Web_IN_0"]


def test_a_number_does_not_come_back() -> None:
    """Who deletes an instance and then changes something else wants no other in its place."""
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
    """On the role instances that are named, or on all of them."""
    for body, expected in (
        ({"roleInstances": ["Web_IN_1"]}, {"Web_IN_1"}),
        ({"roleInstances": ["*"]}, {"Web_IN_0", "Web_IN_1"}),
    ):
        with ArmHarness() as arm:
            service(arm, Web=2)
            arm.poll(SERVICE_SCOPE)
            asked = arm.post(f"{SERVICE}/{action}", body)
            assert asked.status == 202, asked.body
            assert {one[0] for one in told(arm, SERVICE_SCOPE)} == ({event} if event else set())
            arm.advance(1200)
            assert arm.ended(asked)["status"] == "Succeeded"
            assert {(one.machine, one.kind) for one in arm.driver.given} == {
                (name, kind) for name in expected
            }


@pytest.mark.parametrize("action", ["restart", "reimage", "rebuild"])
def test_actions_on_one(action: str) -> None:
    """By its own path."""
    with ArmHarness() as arm:
        service(arm, Web=2)
        asked = arm.post(f"{SERVICE}/roleinstances/web_in_0/{action}")
        arm.advance(200)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert [one.machine for one in arm.driver.given] == ["Web_IN_0"]


def test_names_are_compared_without_case() -> None:
    """In a body as in a path."""
    with ArmHarness() as arm:
        service(arm, Web=2)
        asked = arm.post(f"{SERVICE}/restart", {"roleInstances": ["web_in_1", "WEB_IN_1"]})
        assert asked.status == 202, asked.body
        assert [one.machine for one in arm.driver.given] == ["Web_IN_1"]


def test_what_is_not_there() -> None:
    """404, and nothing is done to the others; nobody deletes all by saying nothing."""
    with ArmHarness() as arm:
        service(arm, Web=1)
        assert refused(arm.get(f"{SERVICE}/roleInstances/x")) == (404, "ResourceNotFound")
        unknown = arm.post(f"{SERVICE}/restart", {"roleInstances": ["Web_IN_0", "x"]})
        assert unknown.status == 404
        wrong = arm.post(f"{SERVICE}/restart", {"roleInstances": [1]})
        assert refused(wrong) == (400, "InvalidParameter")
        assert refused(arm.post(f"{SERVICE}/delete")) == (400, "InvalidParameter")
        assert arm.driver.given == []


def test_a_service_goes_with_its_instances() -> None:
    """It is there until the last of them has gone."""
    with ArmHarness() as arm:
        service(arm, Web=2)
        asked = arm.delete(SERVICE)
        assert asked.status == 202
        assert arm.get(SERVICE).json["properties"]["provisioningState"] == "Deleting"
        arm.advance(60)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert refused(arm.get(SERVICE)) == (404, "ResourceNotFound")
        assert not arm.exists(SERVICE_SCOPE)
        assert arm.delete(SERVICE).status == 204


def test_a_service_of_a_fleet_file() -> None:
    """It is there, and changes nothing by being written back."""
    with ArmHarness() as arm:
        arm.demo()
        path = "/resourceGroups/fairwarning/providers/Microsoft.Compute/cloudServices/legacy"
        read = arm.get(path).json
        assert arm.put(path, read).status == 200
        assert arm.get(path).json == read
        assert names(arm, f"{path}/roleInstances") == ["FrontEnd_IN_0"]
