from typing import Any

import pytest

from tests.arm.bodies import (
    WEB,
    WEB_SCOPE,
    names,
    notice,
    refused,
    scale_set,
    visible_events,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

FIRST = f"{WEB}/virtualMachines/0"
SPOT = {"priority": "Spot", "evictionPolicy": "Delete"}


def protection(*, scale_in: bool = False, actions: bool = False) -> dict[str, Any]:
    """Return a body that protects an instance."""
    policy = {"protectFromScaleIn": scale_in, "protectFromScaleSetActions": actions}
    return {"properties": {"protectionPolicy": policy}}


# --- Reading --------------------------------------------------------------------------------------


@pytest.mark.spec("C1", "T7")
def test_an_instance_is_read() -> None:
    """An instance is read by its id or its name, and has the location of its set."""
    with ArmHarness() as arm:
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


def test_an_unknown_instance() -> None:
    """GET returns 404, also for an instance of another set; DELETE returns 204."""
    with ArmHarness() as arm:
        scale_set(arm)
        for number in ("7", "x", "db_0", "-1"):
            assert refused(arm.get(f"{WEB}/virtualMachines/{number}")) == (404, "ResourceNotFound")
            assert arm.delete(f"{WEB}/virtualMachines/{number}").status == 204
        assert refused(arm.get(f"{WEB}x/virtualMachines/0")) == (404, "ResourceNotFound")


def test_a_listing_has_pages() -> None:
    """A page has 200 instances, in the order of ids, over all placement groups."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=401)
        ids: list[int] = []
        page = arm.get(f"{WEB}/virtualMachines").json
        sizes = [len(page["value"])]
        while True:
            ids += [int(item["instanceId"]) for item in page["value"]]
            if "nextLink" not in page:
                break
            page = arm.follow(page["nextLink"]).json
            sizes.append(len(page["value"]))
        assert sizes == [200, 200, 1]
        assert ids == list(range(401))
        invalid = arm.get(f"{WEB}/virtualMachines", **{"$skiptoken": "x"})
        assert refused(invalid) == (400, "InvalidSkipToken")


# --- Writing --------------------------------------------------------------------------------------


def test_an_instance_is_protected_from_scale_in() -> None:
    """It stays when the set shrinks; its other properties are returned as written."""
    with ArmHarness() as arm:
        scale_set(arm, scaleInPolicy={"rules": ["OldestVM"]})
        response = arm.put(FIRST, {"location": "local", **protection(scale_in=True)})
        assert response.status == 200
        assert response.json == arm.get(FIRST).json
        assert response.json["properties"]["protectionPolicy"]["protectFromScaleIn"] is True
        arm.patch(WEB, {"sku": {"capacity": 1}})
        arm.advance(60)
        assert names(arm, f"{WEB}/virtualMachines") == ["web_0"]


def test_an_instance_is_protected_from_set_actions() -> None:
    """An action on all instances skips it; an action that names it does not."""
    with ArmHarness() as arm:
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


def test_protection_is_merged_and_can_be_removed() -> None:
    """Missing members stay, booleans may be strings, and a write-back changes nothing."""
    with ArmHarness() as arm:
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


def test_the_body_is_deleted_with_the_instance() -> None:
    """Ids are never reused, so no new instance inherits the body."""
    with ArmHarness() as arm:
        scale_set(arm)
        arm.put(FIRST, {"tags": {"a": "b"}})
        accepted = arm.delete(FIRST)
        arm.advance(60)
        assert arm.ended(accepted)["status"] == "Succeeded"
        arm.patch(WEB, {"sku": {"capacity": 3}})
        items = arm.get(f"{WEB}/virtualMachines").json["value"]
        assert [item["name"] for item in items] == ["web_1", "web_2", "web_3"]
        assert [item for item in items if "tags" in item] == []


# --- Actions --------------------------------------------------------------------------------------


@pytest.mark.spec("T4")
def test_spot_instances() -> None:
    """An eviction gives short notice; a delete gives none, and a profile for that is refused."""
    with ArmHarness() as arm:
        arm.group()
        body = {"location": "local", "properties": {"virtualMachineProfile": {**SPOT, **notice()}}}
        assert refused(arm.put(WEB, body)) == (409, "OperationNotAllowed")
        scale_set(arm, model=SPOT)
        arm.poll(WEB_SCOPE)
        assert arm.post(f"{FIRST}/simulateEviction").status == 204
        assert visible_events(arm, WEB_SCOPE) == [("Preempt", "Scheduled", ["web_0"])]
        arm.delete(f"{WEB}/virtualMachines/1")
        arm.advance(60)
        assert names(arm, f"{WEB}/virtualMachines") == ["web_2"]
        scale_set(arm, f"{WEB}2")
        regular = arm.post(f"{WEB}2/virtualMachines/0/simulateEviction")
        assert refused(regular) == (409, "OperationNotAllowed")
