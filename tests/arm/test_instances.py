from typing import Any

import pytest

from tests.arm.bodies import WEB, WEB_SCOPE, names, notice, refused, scale_set
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

FIRST = f"{WEB}/virtualMachines/0"


def protection(*, scale_in: bool = False, actions: bool = False) -> dict[str, Any]:
    """Return a body that protects an instance."""
    policy = {"protectFromScaleIn": scale_in, "protectFromScaleSetActions": actions}
    return {"properties": {"protectionPolicy": policy}}


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


def test_an_instance_is_protected_from_set_actions(arm: ArmHarness) -> None:
    """An action on all instances skips it; an action that names it does not."""
    scale_set(arm, model=notice())
    arm.put(FIRST, protection(actions=True))
    arm.post(f"{WEB}/deallocate", {"instanceIds": ["*"]})
    assert {impact.machine for impact in arm.driver.impacts} == {"web_1", "web_2"}
    arm.post(f"{WEB}/deallocate", {"instanceIds": ["0"]})
    assert {impact.machine for impact in arm.driver.impacts} == {"web_0", "web_1", "web_2"}
    arm.advance(60)
    arm.patch(WEB, {"properties": {"virtualMachineProfile": notice("PT9M")}})
    arm.post(f"{WEB}/manualupgrade", {"instanceIds": ["*"]})
    notices = [machine.terminate_seconds for machine in arm.machines(WEB_SCOPE).values()]
    assert notices == [300, 540, 540]
    arm.post(f"{WEB}/delete", {"instanceIds": ["*"]})
    arm.advance(600)
    assert names(arm, f"{WEB}/virtualMachines") == ["web_0"]


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
    arm.put(FIRST, protection())
    machine = arm.machines(WEB_SCOPE)["web_0"]
    assert (machine.protected, machine.shielded) == (False, False)
    assert arm.put(f"{WEB}/virtualMachines/9", protection()).status == 404
