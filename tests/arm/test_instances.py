from typing import Any

import pytest

from fairwarning.core.commands import Maintain
from fairwarning.core.model import ImpactKind
from tests.arm.bodies import (
    COMPUTE,
    VM,
    WEB,
    WEB_SCOPE,
    created,
    names,
    notice,
    refused,
    scale_set,
    told,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

FIRST = f"{WEB}/virtualMachines/0"
MACHINES = f"{COMPUTE}/virtualMachines"
SPOT = {"priority": "Spot", "evictionPolicy": "Delete"}


def protection(*, scale_in: bool = False, actions: bool = False) -> dict[str, Any]:
    """What keeps an instance."""
    both = {"protectFromScaleIn": scale_in, "protectFromScaleSetActions": actions}
    return {"properties": {"protectionPolicy": both}}


# --- Reading --------------------------------------------------------------------------------------


@pytest.mark.spec("C1", "T7")
def test_an_instance_is_read() -> None:
    """By its id or its name; listed by id, with the whole set's location."""
    with ArmHarness() as arm:
        scale_set(arm, model={"osProfile": {"computerNamePrefix": "w"}})
        read = arm.get(FIRST).json
        assert (read["name"], read["instanceId"], read["location"]) == ("web_0", "0", "local")
        assert read["id"] == f"{SUBSCRIPTION}{FIRST}"
        assert read["type"] == "Microsoft.Compute/virtualMachineScaleSets/virtualMachines"
        properties = read["properties"]
        assert properties["latestModelApplied"] is True
        assert properties["osProfile"]["computerName"] == "w000000"
        assert properties["provisioningState"] == "Succeeded"
        assert "instanceView" not in properties
        assert arm.get(f"{WEB}/virtualMachines/web_0").json == read
        assert arm.get(f"{WEB}/virtualMachines").json["value"][0] == read


def test_an_instance_that_is_not_there() -> None:
    """404, also under the name of another set's; to delete it is to be done already."""
    with ArmHarness() as arm:
        scale_set(arm)
        for number in ("7", "x", "db_0", "-1"):
            assert refused(arm.get(f"{WEB}/virtualMachines/{number}")) == (404, "ResourceNotFound")
            assert arm.delete(f"{WEB}/virtualMachines/{number}").status == 204
        assert refused(arm.get(f"{WEB}x/virtualMachines/0")) == (404, "ResourceNotFound")


def test_how_it_is_just_now() -> None:
    """Its view by itself, with the instance, and with all of them."""
    with ArmHarness() as arm:
        scale_set(arm)
        view = arm.get(f"{FIRST}/instanceView").json
        codes = [one["code"] for one in view["statuses"]]
        assert codes == ["ProvisioningState/succeeded", "PowerState/running"]
        expand = {"$expand": "instanceView"}
        assert arm.get(FIRST, **expand).json["properties"]["instanceView"] == view
        listed = arm.get(f"{WEB}/virtualMachines", **expand).json["value"]
        assert listed[0]["properties"]["instanceView"] == view


def test_a_listing_has_pages() -> None:
    """200 at a time, in order of ids, over all placement groups."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=401)
        found: list[int] = []
        page = arm.get(f"{WEB}/virtualMachines").json
        sizes = [len(page["value"])]
        while True:
            found += [int(one["instanceId"]) for one in page["value"]]
            if "nextLink" not in page:
                break
            page = arm.follow(page["nextLink"]).json
            sizes.append(len(page["value"]))
        assert sizes == [200, 200, 1]
        assert found == list(range(401))
        wrong = arm.get(f"{WEB}/virtualMachines", **{"$skiptoken": "x"})
        assert refused(wrong) == (400, "InvalidSkipToken")


# --- Writing --------------------------------------------------------------------------------------


def test_an_instance_is_protected_from_scale_in() -> None:
    """It stays when the set shrinks; other protection and other properties come back as written."""
    with ArmHarness() as arm:
        scale_set(arm, scaleInPolicy={"rules": ["OldestVM"]})
        written = arm.put(FIRST, {"location": "local", **protection(scale_in=True)})
        assert written.status == 200
        assert written.json == arm.get(FIRST).json
        assert written.json["properties"]["protectionPolicy"]["protectFromScaleIn"] is True
        arm.patch(WEB, {"sku": {"capacity": 1}})
        arm.advance(60)
        assert names(arm, f"{WEB}/virtualMachines") == ["web_0"]


def test_an_instance_is_protected_from_what_is_done_to_its_set() -> None:
    """Passed over when all are meant, not when it is named."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice())
        arm.put(FIRST, protection(actions=True))
        arm.post(f"{WEB}/deallocate", {"instanceIds": ["*"]})
        assert {one.machine for one in arm.driver.given} == {"web_1", "web_2"}
        arm.post(f"{WEB}/deallocate", {"instanceIds": ["0"]})
        assert {one.machine for one in arm.driver.given} == {"web_0", "web_1", "web_2"}
        arm.advance(60)
        arm.patch(WEB, {"properties": {"virtualMachineProfile": notice("PT9M")}})
        arm.post(f"{WEB}/manualupgrade", {"instanceIds": ["*"]})
        kept = [one.terminate_seconds for one in arm.machines(WEB_SCOPE).values()]
        assert kept == [300, 540, 540]
        arm.post(f"{WEB}/delete", {"instanceIds": ["*"]})
        arm.advance(600)
        assert names(arm, f"{WEB}/virtualMachines") == ["web_0"]


def test_protection_is_merged_and_may_be_lifted() -> None:
    """What is not said stays; booleans may be strings; what was read may be written back."""
    with ArmHarness() as arm:
        scale_set(arm)
        text = {"protectionPolicy": {"protectFromScaleIn": "True"}, "own": {"a": [1]}}
        assert arm.put(FIRST, {"properties": text}).status == 200
        assert arm.machines(WEB_SCOPE)["web_0"].protected
        arm.put(FIRST, {"tags": {"a": "b"}, "properties": {"protectionPolicy": None}})
        shown = arm.get(FIRST).json
        assert shown["properties"]["protectionPolicy"]["protectFromScaleIn"] is True
        assert shown["properties"]["own"] == {"a": [1]}
        assert shown["tags"] == {"a": "b"}
        arm.put(FIRST, arm.get(FIRST).json)
        assert arm.get(FIRST).json == shown
        arm.put(FIRST, protection())
        machine = arm.machines(WEB_SCOPE)["web_0"]
        assert (machine.protected, machine.shielded) == (False, False)
        assert arm.put(f"{WEB}/virtualMachines/9", protection()).status == 404


def test_an_instance_that_nobody_wrote_about_may_be_patched() -> None:
    """It is there, and that is all that a PATCH needs."""
    with ArmHarness() as arm:
        scale_set(arm)
        assert arm.patch(FIRST, protection(scale_in=True)).status == 200
        assert arm.machines(WEB_SCOPE)["web_0"].protected
        assert arm.patch(f"{WEB}/virtualMachines/9", protection()).status == 404


def test_what_was_written_goes_with_its_instance() -> None:
    """Ids are not used again, so nothing of it can turn up elsewhere."""
    with ArmHarness() as arm:
        scale_set(arm)
        arm.put(FIRST, {"tags": {"a": "b"}})
        asked = arm.delete(FIRST)
        arm.advance(60)
        assert arm.ended(asked)["status"] == "Succeeded"
        arm.patch(WEB, {"sku": {"capacity": 3}})
        shown = arm.get(f"{WEB}/virtualMachines").json["value"]
        assert [one["name"] for one in shown] == ["web_1", "web_2", "web_3"]
        assert [one for one in shown if "tags" in one] == []


# --- Doing ----------------------------------------------------------------------------------------


@pytest.mark.spec("C1")
@pytest.mark.parametrize(
    ("action", "kind", "event"),
    [
        ("restart", ImpactKind.REBOOT, "Reboot"),
        ("redeploy", ImpactKind.REDEPLOY, "Redeploy"),
        ("reimage", ImpactKind.REIMAGE, ""),
        ("reimageall", ImpactKind.REIMAGE, ""),
        ("deallocate", ImpactKind.DEALLOCATE, ""),
        ("poweroff", ImpactKind.STOP, ""),
        ("start", ImpactKind.START, ""),
    ],
)
def test_actions(action: str, kind: ImpactKind, event: str) -> None:
    """On this one instance, and announced where it is announced on any machine."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice())
        arm.poll(WEB_SCOPE)
        asked = arm.post(f"{WEB}/virtualmachines/0/{action}")
        expected = [(event, "Scheduled", ["web_0"])] if event else []
        assert told(arm, WEB_SCOPE) == expected
        arm.advance(1200)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert [(one.machine, one.kind) for one in arm.driver.given] == [("web_0", kind)]


@pytest.mark.spec("T4", "T5")
def test_a_delete_gives_the_notice_of_the_model_it_follows() -> None:
    """Approved, it is deleted then; the set has one less from the beginning."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice("PT15M"))
        arm.poll(WEB_SCOPE)
        asked = arm.delete(FIRST)
        assert told(arm, WEB_SCOPE) == [("Terminate", "Scheduled", ["web_0"])]
        assert arm.get(WEB).json["sku"]["capacity"] == 2
        assert arm.get(FIRST).json["properties"]["provisioningState"] == "Deleting"
        event = arm.poll(WEB_SCOPE)["Events"][0]["EventId"]
        maintenance = f"{WEB}/providers/Microsoft.Maintenance/scheduledevents"
        assert arm.post(f"{maintenance}/{event}/acknowledge").status == 200
        arm.advance(60)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert names(arm, f"{WEB}/virtualMachines") == ["web_1", "web_2"]


@pytest.mark.spec("T4")
def test_spot_instances() -> None:
    """They are evicted with a short notice and deleted with none at all."""
    with ArmHarness() as arm:
        scale_set(arm, model={**SPOT, **notice()})
        arm.poll(WEB_SCOPE)
        assert arm.post(f"{FIRST}/simulateEviction").status == 204
        assert told(arm, WEB_SCOPE) == [("Preempt", "Scheduled", ["web_0"])]
        arm.delete(f"{WEB}/virtualMachines/1")
        arm.advance(60)
        assert names(arm, f"{WEB}/virtualMachines") == ["web_2"]
        scale_set(arm, f"{WEB}2")
        regular = arm.post(f"{WEB}2/virtualMachines/0/simulateEviction")
        assert refused(regular) == (409, "OperationNotAllowed")


def test_announced_maintenance_may_begin_at_once() -> None:
    """That of this instance."""
    with ArmHarness() as arm:
        scale_set(arm)
        arm.poll(WEB_SCOPE)
        arm.do(Maintain(scope=WEB_SCOPE, operation="o", machines=("web_0",)))
        asked = arm.post(f"{FIRST}/performMaintenance")
        assert told(arm, WEB_SCOPE) == [("Freeze", "Started", ["web_0"])]
        arm.advance(9)
        assert arm.ended(asked)["status"] == "Succeeded"
        other = arm.post(f"{WEB}/virtualMachines/1/performMaintenance")
        assert refused(other) == (409, "OperationNotAllowed")


# --- Flexible sets --------------------------------------------------------------------------------


def test_instances_of_a_flexible_set_are_machines() -> None:
    """They may be called by name: read, acted on and deleted, each as the set's own."""
    with ArmHarness() as arm:
        scale_set(arm, model=notice(), orchestrationMode="Flexible")
        arm.poll(WEB_SCOPE)
        read = arm.get(f"{MACHINES}/web_0").json
        assert read["type"] == "Microsoft.Compute/virtualMachines"
        assert read["id"] == f"{SUBSCRIPTION}{MACHINES}/web_0"
        assert read["properties"]["virtualMachineScaleSet"] == {"id": f"{SUBSCRIPTION}{WEB}"}
        arm.post(f"{MACHINES}/web_1/restart")
        arm.delete(f"{MACHINES}/web_0")
        assert sorted(told(arm, WEB_SCOPE)) == [
            ("Reboot", "Scheduled", ["web_1"]),
            ("Terminate", "Scheduled", ["web_0"]),
        ]
        arm.advance(400)
        assert arm.get(f"{MACHINES}/web_0").status == 404
        assert arm.get(WEB).json["sku"]["capacity"] == 2


def test_a_machine_does_not_take_the_name_of_an_instance() -> None:
    """Whoever writes to an instance of a Flexible set makes no second machine of its name."""
    with ArmHarness() as arm:
        scale_set(arm, orchestrationMode="Flexible")
        arm.put(f"{MACHINES}/web_0", {"location": "local"})
        read = arm.get(f"{MACHINES}/web_0").json
        assert read["properties"]["virtualMachineScaleSet"] == {"id": f"{SUBSCRIPTION}{WEB}"}
        assert not arm.exists("rg:web_0")


def test_instances_of_a_uniform_set_are_not_machines() -> None:
    """They are called by their set, and a machine may have such a name."""
    with ArmHarness() as arm:
        scale_set(arm)
        assert refused(arm.get(f"{MACHINES}/web_0")) == (404, "ResourceNotFound")
        created(arm.put(f"{MACHINES}/web_0", {"location": "local"}))
        assert refused(arm.get(VM)) == (404, "ResourceNotFound")
