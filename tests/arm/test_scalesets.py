from typing import Any

import pytest

from fairwarning.core.model import ImpactKind, ScaleSet
from tests.arm.bodies import (
    COMPUTE,
    WEB,
    WEB_SCOPE,
    names,
    notice,
    refused,
    scale_set,
    visible_events,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

SETS = f"{COMPUTE}/virtualMachineScaleSets"


def model(arm: ArmHarness, name: str = "rg:web") -> ScaleSet:
    """Return the scale set of the core."""
    scale_set = arm.scale_set(name)
    assert scale_set is not None
    return scale_set


def capacity(arm: ArmHarness, path: str = WEB) -> int:
    """Return the capacity of a set."""
    count: int = arm.get(path).json["sku"]["capacity"]
    return count


def web_events(arm: ArmHarness) -> list[tuple[str, str, list[str]]]:
    """Return the events that the first instances of the set see."""
    return visible_events(arm, WEB_SCOPE)


@pytest.mark.spec("C1", "T7")
def test_a_set_is_created_and_read(arm: ArmHarness) -> None:
    """The document has the written and the computed members, and is in both listings."""
    prefix = {"osProfile": {"computerNamePrefix": "front", "adminPassword": "s3cret"}}
    scale_set(arm, capacity=2, model=prefix, zoneBalance=True)
    document = arm.get(WEB).json
    assert document["id"] == f"{SUBSCRIPTION}{WEB}"
    assert document["type"] == "Microsoft.Compute/virtualMachineScaleSets"
    assert document["sku"] == {"name": "Standard_B1s", "tier": "Standard", "capacity": 2}
    properties = document["properties"]
    assert properties["provisioningState"] == "Succeeded"
    assert properties["orchestrationMode"] == "Uniform"
    assert properties["upgradePolicy"] == {"mode": "Manual"}
    assert properties["zoneBalance"] is True
    assert properties["virtualMachineProfile"]["osProfile"] == {"computerNamePrefix": "front"}
    assert arm.get(SETS).json == {"value": [document]}
    assert arm.get("/providers/Microsoft.Compute/virtualMachineScaleSets").json["value"]
    hosts = [machine.host_name for machine in arm.machines(WEB_SCOPE).values()]
    assert hosts == ["front000000", "front000001"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"sku": {"capacity": -1}}, "sku.capacity"),
        ({"sku": {"capacity": 1001}}, "sku.capacity"),
        ({"sku": {"capacity": True}}, "sku.capacity"),
        ({"properties": {"upgradePolicy": {"mode": "Whenever"}}}, "upgradePolicy.mode"),
        ({"properties": {"orchestrationMode": "Loose"}}, "orchestrationMode"),
        ({"properties": {"platformFaultDomainCount": 6}}, "platformFaultDomainCount"),
        ({"properties": {"virtualMachineProfile": []}}, "virtualMachineProfile"),
        ({"properties": {"virtualMachineProfile": {"networkProfile": []}}}, "networkProfile"),
        ({"zones": [True]}, "zones"),
    ],
)
def test_invalid_values(arm: ArmHarness, body: Any, path: str) -> None:  # noqa: ANN401  (any JSON)
    """The error names the member, and nothing is created."""
    response = arm.put(WEB, {"location": "local", **body})
    assert refused(response) == (400, "InvalidParameter")
    assert path in response.error_message
    assert names(arm, SETS) == []


@pytest.mark.spec("T3", "M19")
def test_changed_tags_are_a_new_model(arm: ArmHarness) -> None:
    """They reach an instance when it is upgraded; the same tags again need no upgrade."""
    scale_set(arm, model=notice())
    for _ in range(2):
        arm.patch(WEB, {"tags": {"team": "a"}})
    assert model(arm).model == 2
    assert arm.post(f"{WEB}/manualupgrade", {"instanceIds": ["1"]}).status == 200
    instances = arm.get(f"{WEB}/virtualMachines").json["value"]
    assert [instance.get("tags") for instance in instances] == [None, {"team": "a"}, None]
    applied = [instance["properties"]["latestModelApplied"] for instance in instances]
    assert applied == [False, True, False]


def test_an_old_capacity_is_not_restored(arm: ArmHarness) -> None:
    """After instances are deleted, another change does not create them again."""
    scale_set(arm)
    arm.post(f"{WEB}/delete", {"instanceIds": ["0", "1"]})
    arm.advance(60)
    arm.patch(WEB, {"tags": {"a": "b"}})
    assert capacity(arm) == 1
    arm.patch(WEB, {"sku": {"capacity": 2}})
    assert names(arm, f"{WEB}/virtualMachines") == ["web_2", "web_3"]


def test_protected_instances_stay(arm: ArmHarness) -> None:
    """A capacity below the protected instances is refused, and nothing is applied."""
    scale_set(arm)
    keep = {"properties": {"protectionPolicy": {"protectFromScaleIn": True}}}
    for number in (1, 2):
        arm.put(f"{WEB}/virtualMachines/{number}", keep)
    response = arm.patch(WEB, {"sku": {"capacity": 1}, "tags": {"a": "b"}})
    assert refused(response) == (409, "OperationNotAllowed")
    assert "tags" not in arm.get(WEB).json
    arm.patch(WEB, {"sku": {"capacity": 2}})
    arm.advance(60)
    assert names(arm, f"{WEB}/virtualMachines") == ["web_1", "web_2"]


@pytest.mark.parametrize(("rule", "left"), [("NewestVM", ["web_0"]), ("OldestVM", ["web_2"])])
def test_scale_in_rules(arm: ArmHarness, rule: str, left: list[str]) -> None:
    """The scale-in policy selects the instances to delete."""
    scale_set(arm, scaleInPolicy={"rules": [rule]})
    arm.patch(WEB, {"sku": {"capacity": 1}})
    arm.advance(60)
    assert names(arm, f"{WEB}/virtualMachines") == left


@pytest.mark.spec("C1")
@pytest.mark.parametrize(
    ("action", "kind", "event"),
    [
        ("restart", ImpactKind.REBOOT, "Reboot"),
        ("deallocate", ImpactKind.DEALLOCATE, ""),
        ("reimageall", ImpactKind.REIMAGE, ""),
    ],
)
def test_actions_on_instances(arm: ArmHarness, action: str, kind: ImpactKind, event: str) -> None:
    """An action applies to the instances with these ids or names, or to all."""
    scale_set(arm, model=notice())
    arm.poll(WEB_SCOPE)
    for body, expected in (
        ({"instanceIds": ["1"]}, {"web_1"}),
        ({"instanceIds": ["web_1", "2", "1"]}, {"web_1", "web_2"}),
        ({"instanceIds": ["*"]}, {"web_0", "web_1", "web_2"}),
        (None, {"web_0", "web_1", "web_2"}),
    ):
        arm.driver.impacts.clear()
        accepted = arm.post(f"{WEB}/{action}", body)
        assert accepted.status == 202
        assert {event_[0] for event_ in web_events(arm)} == ({event} if event else set())
        arm.advance(1200)
        assert {(impact.machine, impact.kind) for impact in arm.driver.impacts} == {
            (name, kind) for name in expected
        }
        assert arm.ended(accepted)["status"] == "Succeeded"


@pytest.mark.parametrize("ids", [["7"], ["db_0"], ["x"], [0], [], "0", ["01"], ["1", "7"]])
@pytest.mark.parametrize("action", ["restart", "delete", "manualupgrade", "performMaintenance"])
def test_invalid_instance_ids(arm: ArmHarness, action: str, ids: Any) -> None:  # noqa: ANN401  (any JSON)
    """If any id is invalid, the request is refused and no action runs."""
    scale_set(arm)
    response = arm.post(f"{WEB}/{action}", {"instanceIds": ids})
    assert response.status >= 400
    assert refused(response) == (400, "InvalidParameter")
    assert arm.driver.impacts == []


@pytest.mark.parametrize("action", ["delete", "manualupgrade"])
def test_required_instance_ids(arm: ArmHarness, action: str) -> None:
    """A delete or an upgrade needs instance ids."""
    scale_set(arm)
    response = arm.post(f"{WEB}/{action}")
    assert refused(response) == (400, "InvalidParameter")
    assert "instanceIds" in response.error_message


def test_the_instance_view_of_a_set(arm: ArmHarness) -> None:
    """It has the number of instances in each state."""
    scale_set(arm)
    arm.post(f"{WEB}/deallocate", {"instanceIds": ["0"]})
    arm.advance(60)
    view = arm.get(f"{WEB}/instanceView").json["virtualMachine"]["statusesSummary"]
    assert {status["code"]: status["count"] for status in view} == {
        "PowerState/deallocated": 1,
        "PowerState/running": 2,
        "ProvisioningState/succeeded": 3,
    }


FIRST = f"{WEB}/virtualMachines/0"
PROTECTION = "protectFromScaleIn", "protectFromScaleSetActions"


@pytest.mark.spec("C1", "T7")
def test_an_instance_is_read(arm: ArmHarness) -> None:
    """An instance is read by its id or its name, and has the location of its set."""
    scale_set(arm, model={"osProfile": {"computerNamePrefix": "w"}})
    document = arm.get(FIRST).json
    assert (document["name"], document["instanceId"], document["location"]) == (
        "web_0",
        "0",
        "local",
    )
    assert document["id"] == f"{SUBSCRIPTION}{FIRST}"
    assert document["type"] == "Microsoft.Compute/virtualMachineScaleSets/virtualMachines"
    properties = document["properties"]
    assert properties["latestModelApplied"] is True
    assert properties["osProfile"]["computerName"] == "w000000"
    assert properties["provisioningState"] == "Succeeded"
    assert "instanceView" not in properties
    assert arm.get(f"{WEB}/virtualMachines/web_0").json == document
    assert arm.get(f"{WEB}/virtualMachines").json["value"][0] == document


def test_an_unknown_instance(arm: ArmHarness) -> None:
    """GET returns 404, also for an instance of another set; DELETE returns 204."""
    scale_set(arm)
    for number in ("7", "x", "db_0", "-1"):
        assert refused(arm.get(f"{WEB}/virtualMachines/{number}")) == (404, "ResourceNotFound")
        assert arm.delete(f"{WEB}/virtualMachines/{number}").status == 204
    assert refused(arm.get(f"{WEB}x/virtualMachines/0")) == (404, "ResourceNotFound")


def test_protection_is_merged_and_can_be_removed(arm: ArmHarness) -> None:
    """Missing members stay, booleans may be strings, and a write-back changes nothing."""
    scale_set(arm)
    text = {"protectionPolicy": {"protectFromScaleIn": "True"}, "own": {"a": [1]}}
    assert arm.put(FIRST, {"properties": text}).status == 200
    assert arm.machines(WEB_SCOPE)["web_0"].protected
    arm.put(FIRST, {"tags": {"a": "b"}, "properties": {"protectionPolicy": None}})
    document = arm.get(FIRST).json
    assert document["properties"]["protectionPolicy"]["protectFromScaleIn"] is True
    assert document["properties"]["own"] == {"a": [1]}
    assert document["tags"] == {"a": "b"}
    arm.put(FIRST, arm.get(FIRST).json)
    assert arm.get(FIRST).json == document
    arm.put(FIRST, {"properties": {"protectionPolicy": dict.fromkeys(PROTECTION, False)}})
    machine = arm.machines(WEB_SCOPE)["web_0"]
    assert (machine.protected, machine.shielded) == (False, False)
    assert arm.put(f"{WEB}/virtualMachines/9", {"properties": {}}).status == 404
