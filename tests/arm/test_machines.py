from typing import Any

import pytest

from fairwarning.core.commands import Maintain
from fairwarning.core.model import ImpactKind, Rules
from fairwarning.service.config.settings import ArmSettings
from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import (
    AV,
    COMPUTE,
    VM,
    VM_SCOPE,
    actors,
    created,
    machine,
    names,
    notice,
    policy,
    refused,
    told,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

MACHINES = f"{COMPUTE}/virtualMachines"
HERE = {"location": "local"}
SPOT = {"priority": "Spot", "evictionPolicy": "Deallocate"}


def power(arm: ArmHarness, path: str = VM) -> str:
    """Whether a machine runs."""
    codes = [one["code"] for one in arm.get(f"{path}/instanceView").json["statuses"]]
    (found,) = (code.partition("/")[2] for code in codes if code.startswith("PowerState/"))
    return str(found)


# --- What is written ------------------------------------------------------------------------------


@pytest.mark.spec("C1")
def test_a_machine_is_made_and_read() -> None:
    """201 with the whole document, then the same by GET and in both listings."""
    with ArmHarness() as arm:
        arm.group()
        hardware = {"hardwareProfile": {"vmSize": "Standard_D2s_v3"}}
        made = created(arm.put(VM, {**HERE, "tags": {"a": "b"}, "properties": hardware}))
        assert made["id"] == f"{SUBSCRIPTION}{VM}"
        assert made["type"] == "Microsoft.Compute/virtualMachines"
        assert (made["name"], made["location"], made["tags"]) == ("vm", "local", {"a": "b"})
        assert made["properties"]["hardwareProfile"] == {"vmSize": "Standard_D2s_v3"}
        assert made["properties"]["provisioningState"] == "Succeeded"
        assert arm.get(VM).json == made
        assert arm.get(MACHINES).json == {"value": [made]}
        assert arm.get("/providers/Microsoft.Compute/virtualMachines").json == {"value": [made]}
        assert arm.machines(VM_SCOPE)["vm"].size == "Standard_D2s_v3"
        assert arm.put(VM, HERE).status == 200


@pytest.mark.parametrize(
    ("first", "change", "name"),
    [
        ({}, {"properties": SPOT}, "priority"),
        (SPOT, {"properties": {"evictionPolicy": "Delete"}}, "evictionPolicy"),
        ({}, {"zones": ["1"]}, "zones"),
        ({}, {"properties": {"availabilitySet": {"id": f"{SUBSCRIPTION}{AV}"}}}, "availabilitySet"),
        (
            {"osProfile": {"computerName": "a"}},
            {"properties": {"osProfile": {"computerName": "b"}}},
            "computerName",
        ),
    ],
)
def test_some_values_are_for_life(first: Any, change: Any, name: str) -> None:  # noqa: ANN401
    """They are refused with their name, and the rest of the request is not taken either."""
    with ArmHarness() as arm:
        machine(arm, **first)
        created(arm.put(AV, HERE))
        before = arm.get(VM).json
        answer = arm.patch(VM, {**change, "tags": {"a": "b"}})
        assert arm.get(VM).json == before
        assert refused(answer) == (409, "PropertyChangeNotAllowed")
        assert name in answer.error_message


def test_only_what_can_be_evicted_has_a_policy_for_it() -> None:
    """The policy needs a Spot machine, and a Spot machine cannot be in an availability set."""
    with ArmHarness() as arm:
        arm.group()
        created(arm.put(AV, HERE))
        policy_alone = arm.put(VM, {**HERE, "properties": {"evictionPolicy": "Delete"}})
        assert policy_alone.error_code == "EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines"
        there = {**SPOT, "availabilitySet": {"id": f"{SUBSCRIPTION}{AV}"}}
        in_set = arm.put(VM, {**HERE, "properties": there})
        assert in_set.error_code == "AzureSpotVMNotSupportedInAvailabilitySet"
        assert arm.get(VM).status == 404


# --- What is done ---------------------------------------------------------------------------------


@pytest.mark.spec("C1", "E3")
@pytest.mark.parametrize(("action", "event"), [("restart", "Reboot"), ("redeploy", "Redeploy")])
def test_what_is_announced(action: str, event: str) -> None:
    """The machine is told before it happens; it is over for the caller when it has happened."""
    with ArmHarness() as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        asked = arm.post(f"{VM}/{action}")
        assert asked.status == 202
        assert told(arm, VM_SCOPE) == [(event, "Scheduled", ["vm"])]
        assert arm.ended(asked)["status"] == "InProgress"
        arm.advance(15 * 60 + 300)
        assert told(arm, VM_SCOPE) == []
        assert arm.ended(asked)["status"] == "Succeeded"
        assert [impact.machine for impact in arm.driver.given] == ["vm"]


@pytest.mark.spec("C1", "T4")
@pytest.mark.parametrize(
    ("action", "kind", "left"),
    [
        ("reimage", ImpactKind.REIMAGE, "running"),
        ("deallocate", ImpactKind.DEALLOCATE, "deallocated"),
        ("powerOff", ImpactKind.STOP, "stopped"),
        ("start", ImpactKind.START, "running"),
    ],
)
def test_what_happens_at_once(action: str, kind: ImpactKind, left: str) -> None:
    """No event, however much notice a delete would give."""
    with ArmHarness() as arm:
        machine(arm, **notice())
        arm.poll(VM_SCOPE)
        asked = arm.post(f"{VM}/{action}")
        assert told(arm, VM_SCOPE) == []
        assert [impact.kind for impact in arm.driver.given] == [kind]
        assert arm.get(VM).json["properties"]["provisioningState"] == "Updating"
        arm.advance(600)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert power(arm) == left


@pytest.mark.spec("C1", "T4", "T5")
def test_a_delete_gives_its_notice() -> None:
    """As much as the machine's profile says; the machine is there until then, and then is not."""
    with ArmHarness() as arm:
        machine(arm, **notice("PT7M"))
        arm.poll(VM_SCOPE)
        asked = arm.delete(VM)
        assert asked.status == 202
        assert told(arm, VM_SCOPE) == [("Terminate", "Scheduled", ["vm"])]
        assert arm.get(VM).json["properties"]["provisioningState"] == "Deleting"
        arm.advance(7 * 60 - 1)
        assert arm.get(VM).status == 200
        arm.advance(60)
        assert arm.ended(asked)["status"] == "Succeeded"
        assert refused(arm.get(VM)) == (404, "ResourceNotFound")
        assert arm.delete(VM).status == 204
        created(arm.put(VM, HERE))


def test_an_eviction() -> None:
    """204 and nothing to follow; a machine that is not Spot is not evicted."""
    with ArmHarness() as arm:
        machine(arm, **SPOT)
        arm.poll(VM_SCOPE)
        evicted = arm.post(f"{VM}/simulateEviction")
        assert (evicted.status, evicted.body) == (204, b"")
        assert "azure-asyncoperation" not in evicted.headers
        assert told(arm, VM_SCOPE) == [("Preempt", "Scheduled", ["vm"])]
        arm.advance(60)
        assert power(arm) == "deallocated"
        machine(arm, f"{MACHINES}/other")
        regular = arm.post(f"{MACHINES}/other/simulateEviction")
        assert refused(regular) == (409, "OperationNotAllowed")


def test_announced_maintenance_may_begin_at_once() -> None:
    """If the user says so; where the platform has announced nothing there is nothing to begin."""
    with ArmHarness() as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        nothing = arm.post(f"{VM}/performMaintenance")
        assert refused(nothing) == (409, "OperationNotAllowed")
        arm.post(f"{VM}/restart")
        own = arm.post(f"{VM}/performMaintenance")
        assert refused(own) == (409, "OperationNotAllowed")
        arm.advance(1000)
        arm.do(
            Maintain(scope=VM_SCOPE, operation="host", machines=("vm",), kind=ImpactKind.REDEPLOY)
        )
        offered = arm.get(f"{VM}/instanceView").json["maintenanceRedeployStatus"]
        assert offered["isCustomerInitiatedMaintenanceAllowed"] is True
        began = arm.post(f"{VM}/performMaintenance")
        assert told(arm, VM_SCOPE) == [("Redeploy", "Started", ["vm"])]
        assert arm.ended(began)["status"] == "InProgress"
        arm.advance(240)
        assert arm.ended(began)["status"] == "Succeeded"


@pytest.mark.spec("E5")
def test_one_thing_at_a_time() -> None:
    """A second is refused and says what is in its way."""
    with ArmHarness() as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        arm.post(f"{VM}/restart")
        second = arm.post(f"{VM}/redeploy")
        assert refused(second) == (409, "Conflict")
        assert "vm" in second.error_message


@pytest.mark.spec("E8")
def test_a_policy_approves_what_users_want() -> None:
    """The event appears as Started; a policy may come later, and is for its own kind only."""
    with ArmHarness() as arm:
        machine(arm, **policy(reboot=True))
        arm.poll(VM_SCOPE)
        arm.post(f"{VM}/restart")
        assert told(arm, VM_SCOPE) == [("Reboot", "Started", ["vm"])]
        arm.advance(60)
        arm.post(f"{VM}/redeploy")
        assert told(arm, VM_SCOPE) == [("Redeploy", "Scheduled", ["vm"])]
        arm.advance(1000)
        assert arm.patch(VM, {"properties": policy(redeploy=True)}).status == 200
        arm.post(f"{VM}/redeploy")
        assert told(arm, VM_SCOPE) == [("Redeploy", "Started", ["vm"])]


def test_rules_of_the_control_plane_are_those_of_what_it_makes() -> None:
    """What the operator set holds for every machine that comes later."""
    with ArmHarness(ArmSettings(rules=Rules(reboot_seconds=60))) as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        asked = arm.post(f"{VM}/restart")
        arm.advance(59)
        assert told(arm, VM_SCOPE) == [("Reboot", "Scheduled", ["vm"])]
        arm.advance(61)
        assert arm.ended(asked)["status"] == "Succeeded"


def test_the_journal_says_who_it_was() -> None:
    """Whoever the token names, for each thing that was done."""
    ann = Principal(name="ann", role=Role.TENANT, group="rg")
    with ArmHarness() as arm:
        arm.group()
        created(arm.put(VM, HERE, principal=ann))
        arm.poll(VM_SCOPE)
        arm.post(f"{VM}/restart", principal=ann)
        assert actors(arm, "ScopeCreated") == actors(arm, "Scheduled") == {"ann"}
        assert actors(arm, "OperationAccepted") == {"ann"}


def test_machines_of_a_fleet_file() -> None:
    """They are there, can be written about and acted on; writing what was read changes nothing."""
    with ArmHarness() as arm:
        arm.demo()
        path = "/resourceGroups/fairwarning/providers/Microsoft.Compute/virtualMachines"
        assert names(arm, path) == ["batch_0", "db_0", "db_1"]
        for one in names(arm, path):
            read = arm.get(f"{path}/{one}").json
            place = next(name for name in ("batch_0", "db") if one.startswith(name))
            before = arm.machines(place)[one]
            assert arm.put(f"{path}/{one}", read).status == 200
            again = arm.get(f"{path}/{one}").json
            assert {**again, "etag": ""} == {**read, "etag": ""}
            after = arm.machines(place)[one]
            assert (after.priority, after.eviction) == (before.priority, before.eviction)
        assert arm.patch(f"{path}/db_0", {"properties": notice()}).status == 200
        assert arm.machines("db")["db_0"].terminate_seconds == 300


FLEET = """
[[machine]]
name = "vm"
group = "rg"
terminate_notice = "PT10M"
zone = "2"
size = "Standard_B2s"
tags = { a = "b" }
"""


@pytest.mark.parametrize(
    ("change", "name"), [({"properties": SPOT}, "priority"), ({"zones": ["1"]}, "zones")]
)
def test_what_a_fleet_file_says_is_for_life_too(change: Any, name: str) -> None:  # noqa: ANN401
    """It does not matter who said it first."""
    with ArmHarness() as arm:
        arm.demo(FLEET)
        before = arm.get(VM).json
        answer = arm.patch(VM, change)
        assert refused(answer) == (409, "PropertyChangeNotAllowed")
        assert name in answer.error_message
        assert arm.get(VM).json == before


@pytest.mark.parametrize(
    "change",
    [
        {"tags": {"a": "b"}},
        {"properties": {"hardwareProfile": {"vmSizeProperties": {"vCPUsAvailable": 1}}}},
        {"properties": {"scheduledEventsProfile": {"osImageNotificationProfile": {}}}},
        {"properties": {"scheduledEventsProfile": {"terminateNotificationProfile": {}}}},
    ],
)
def test_what_is_not_said_stays(change: Any) -> None:  # noqa: ANN401
    """A change is merged into what the machine is, whoever said so: a fleet file's word counts."""
    with ArmHarness() as arm:
        arm.demo(FLEET)
        before = arm.machines("vm")["vm"]
        assert arm.patch(VM, change).status == 200
        after = arm.machines("vm")["vm"]
        assert (after.terminate_seconds, after.size) == (600, "Standard_B2s")
        assert (after.tags, after.zone) == (before.tags, before.zone)
