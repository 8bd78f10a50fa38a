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
    visible_events,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

MACHINES = f"{COMPUTE}/virtualMachines"
LOCATION = {"location": "local"}
SPOT = {"priority": "Spot", "evictionPolicy": "Deallocate"}


def power(arm: ArmHarness, path: str = VM) -> str:
    """Return the power state of a machine."""
    codes = [status["code"] for status in arm.get(f"{path}/instanceView").json["statuses"]]
    (state,) = (code.partition("/")[2] for code in codes if code.startswith("PowerState/"))
    return str(state)


# --- Writing --------------------------------------------------------------------------------------


@pytest.mark.spec("C1")
def test_a_machine_is_created_and_read() -> None:
    """A PUT returns 201 with the document, which a GET and both listings return as well."""
    with ArmHarness() as arm:
        arm.group()
        hardware = {"hardwareProfile": {"vmSize": "Standard_D2s_v3"}}
        document = created(arm.put(VM, {**LOCATION, "tags": {"a": "b"}, "properties": hardware}))
        assert document["id"] == f"{SUBSCRIPTION}{VM}"
        assert document["type"] == "Microsoft.Compute/virtualMachines"
        assert (document["name"], document["location"], document["tags"]) == (
            "vm",
            "local",
            {"a": "b"},
        )
        assert document["properties"]["hardwareProfile"] == {"vmSize": "Standard_D2s_v3"}
        assert document["properties"]["provisioningState"] == "Succeeded"
        assert arm.get(VM).json == document
        assert arm.get(MACHINES).json == {"value": [document]}
        assert arm.get("/providers/Microsoft.Compute/virtualMachines").json == {"value": [document]}
        assert arm.machines(VM_SCOPE)["vm"].size == "Standard_D2s_v3"
        assert arm.put(VM, LOCATION).status == 200


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
def test_immutable_properties(first: Any, change: Any, name: str) -> None:  # noqa: ANN401  (any JSON)
    """The error names the immutable property, and nothing of the request is applied."""
    with ArmHarness() as arm:
        machine(arm, **first)
        created(arm.put(AV, LOCATION))
        before = arm.get(VM).json
        response = arm.patch(VM, {**change, "tags": {"a": "b"}})
        assert arm.get(VM).json == before
        assert refused(response) == (409, "PropertyChangeNotAllowed")
        assert name in response.error_message


def test_eviction_policies_need_spot_machines() -> None:
    """An eviction policy needs a Spot machine, which cannot be in an availability set."""
    with ArmHarness() as arm:
        arm.group()
        created(arm.put(AV, LOCATION))
        policy_alone = arm.put(VM, {**LOCATION, "properties": {"evictionPolicy": "Delete"}})
        assert policy_alone.error_code == "EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines"
        properties = {**SPOT, "availabilitySet": {"id": f"{SUBSCRIPTION}{AV}"}}
        in_set = arm.put(VM, {**LOCATION, "properties": properties})
        assert in_set.error_code == "AzureSpotVMNotSupportedInAvailabilitySet"
        assert arm.get(VM).status == 404


# --- Actions --------------------------------------------------------------------------------------


@pytest.mark.spec("C1", "E3")
@pytest.mark.parametrize(("action", "event"), [("restart", "Reboot"), ("redeploy", "Redeploy")])
def test_actions_with_an_event(action: str, event: str) -> None:
    """The machine sees an event before; the operation succeeds after the impact."""
    with ArmHarness() as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        accepted = arm.post(f"{VM}/{action}")
        assert accepted.status == 202
        assert visible_events(arm, VM_SCOPE) == [(event, "Scheduled", ["vm"])]
        assert arm.ended(accepted)["status"] == "InProgress"
        arm.advance(15 * 60 + 300)
        assert visible_events(arm, VM_SCOPE) == []
        assert arm.ended(accepted)["status"] == "Succeeded"
        assert [impact.machine for impact in arm.driver.impacts] == ["vm"]


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
def test_actions_without_an_event(action: str, kind: ImpactKind, left: str) -> None:
    """These actions have no event, even with notice of deletes."""
    with ArmHarness() as arm:
        machine(arm, **notice())
        arm.poll(VM_SCOPE)
        accepted = arm.post(f"{VM}/{action}")
        assert visible_events(arm, VM_SCOPE) == []
        assert [impact.kind for impact in arm.driver.impacts] == [kind]
        assert arm.get(VM).json["properties"]["provisioningState"] == "Updating"
        arm.advance(600)
        assert arm.ended(accepted)["status"] == "Succeeded"
        assert power(arm) == left


@pytest.mark.spec("C1", "T4", "T5")
def test_a_delete_gives_its_notice() -> None:
    """The notice is the profile's; the machine exists until it ends."""
    with ArmHarness() as arm:
        machine(arm, **notice("PT7M"))
        arm.poll(VM_SCOPE)
        accepted = arm.delete(VM)
        assert accepted.status == 202
        assert visible_events(arm, VM_SCOPE) == [("Terminate", "Scheduled", ["vm"])]
        assert arm.get(VM).json["properties"]["provisioningState"] == "Deleting"
        arm.advance(7 * 60 - 1)
        assert arm.get(VM).status == 200
        arm.advance(60)
        assert arm.ended(accepted)["status"] == "Succeeded"
        assert refused(arm.get(VM)) == (404, "ResourceNotFound")
        assert arm.delete(VM).status == 204
        created(arm.put(VM, LOCATION))


def test_an_eviction() -> None:
    """An eviction returns 204 without a polling URL; only Spot machines can be evicted."""
    with ArmHarness() as arm:
        machine(arm, **SPOT)
        arm.poll(VM_SCOPE)
        evicted = arm.post(f"{VM}/simulateEviction")
        assert (evicted.status, evicted.body) == (204, b"")
        assert "azure-asyncoperation" not in evicted.headers
        assert visible_events(arm, VM_SCOPE) == [("Preempt", "Scheduled", ["vm"])]
        arm.advance(60)
        assert power(arm) == "deallocated"
        machine(arm, f"{MACHINES}/other")
        regular = arm.post(f"{MACHINES}/other/simulateEviction")
        assert refused(regular) == (409, "OperationNotAllowed")


def test_scheduled_maintenance_can_start_now() -> None:
    """A user can start scheduled platform maintenance; without any, the request is refused."""
    with ArmHarness() as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        nothing = arm.post(f"{VM}/performMaintenance")
        assert refused(nothing) == (409, "OperationNotAllowed")
        arm.post(f"{VM}/restart")
        during_restart = arm.post(f"{VM}/performMaintenance")
        assert refused(during_restart) == (409, "OperationNotAllowed")
        arm.advance(1000)
        arm.do(
            Maintain(scope=VM_SCOPE, operation="host", machines=("vm",), kind=ImpactKind.REDEPLOY)
        )
        offered = arm.get(f"{VM}/instanceView").json["maintenanceRedeployStatus"]
        assert offered["isCustomerInitiatedMaintenanceAllowed"] is True
        accepted = arm.post(f"{VM}/performMaintenance")
        assert visible_events(arm, VM_SCOPE) == [("Redeploy", "Started", ["vm"])]
        assert arm.ended(accepted)["status"] == "InProgress"
        arm.advance(240)
        assert arm.ended(accepted)["status"] == "Succeeded"


@pytest.mark.spec("E5")
def test_one_operation_at_a_time() -> None:
    """A second operation is refused, and the error names the machine."""
    with ArmHarness() as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        arm.post(f"{VM}/restart")
        second = arm.post(f"{VM}/redeploy")
        assert refused(second) == (409, "Conflict")
        assert "vm" in second.error_message


@pytest.mark.spec("E8")
def test_a_policy_approves_user_initiated_events() -> None:
    """The event appears as Started; a policy can be added, and applies to its kind only."""
    with ArmHarness() as arm:
        machine(arm, **policy(reboot=True))
        arm.poll(VM_SCOPE)
        arm.post(f"{VM}/restart")
        assert visible_events(arm, VM_SCOPE) == [("Reboot", "Started", ["vm"])]
        arm.advance(60)
        arm.post(f"{VM}/redeploy")
        assert visible_events(arm, VM_SCOPE) == [("Redeploy", "Scheduled", ["vm"])]
        arm.advance(1000)
        assert arm.patch(VM, {"properties": policy(redeploy=True)}).status == 200
        arm.post(f"{VM}/redeploy")
        assert visible_events(arm, VM_SCOPE) == [("Redeploy", "Started", ["vm"])]


def test_new_machines_have_the_rules_of_the_settings() -> None:
    """The rules of the settings apply to every new machine."""
    with ArmHarness(ArmSettings(rules=Rules(reboot_seconds=60))) as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        accepted = arm.post(f"{VM}/restart")
        arm.advance(59)
        assert visible_events(arm, VM_SCOPE) == [("Reboot", "Scheduled", ["vm"])]
        arm.advance(61)
        assert arm.ended(accepted)["status"] == "Succeeded"


def test_the_journal_names_the_actor() -> None:
    """Every change names the principal of the token."""
    ann = Principal(name="ann", role=Role.TENANT, group="rg")
    with ArmHarness() as arm:
        arm.group()
        created(arm.put(VM, LOCATION, principal=ann))
        arm.poll(VM_SCOPE)
        arm.post(f"{VM}/restart", principal=ann)
        assert actors(arm, "ScopeCreated") == actors(arm, "Scheduled") == {"ann"}
        assert actors(arm, "OperationAccepted") == {"ann"}


def test_machines_of_a_fleet_file() -> None:
    """They can be read, changed and acted on, and a write-back changes nothing."""
    with ArmHarness() as arm:
        arm.create_fleet()
        path = "/resourceGroups/fairwarning/providers/Microsoft.Compute/virtualMachines"
        assert names(arm, path) == ["batch_0", "db_0", "db_1"]
        for name in names(arm, path):
            document = arm.get(f"{path}/{name}").json
            scope = next(scope for scope in ("batch_0", "db") if name.startswith(scope))
            before = arm.machines(scope)[name]
            assert arm.put(f"{path}/{name}", document).status == 200
            again = arm.get(f"{path}/{name}").json
            assert {**again, "etag": ""} == {**document, "etag": ""}
            after = arm.machines(scope)[name]
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
def test_immutable_properties_of_a_fleet_file(change: Any, name: str) -> None:  # noqa: ANN401  (any JSON)
    """Immutable properties of a fleet file cannot be changed either."""
    with ArmHarness() as arm:
        arm.create_fleet(FLEET)
        before = arm.get(VM).json
        response = arm.patch(VM, change)
        assert refused(response) == (409, "PropertyChangeNotAllowed")
        assert name in response.error_message
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
def test_a_patch_keeps_other_properties(change: Any) -> None:  # noqa: ANN401  (any JSON)
    """A change is merged into the machine, including the values of a fleet file."""
    with ArmHarness() as arm:
        arm.create_fleet(FLEET)
        before = arm.machines("vm")["vm"]
        assert arm.patch(VM, change).status == 200
        after = arm.machines("vm")["vm"]
        assert (after.terminate_seconds, after.size) == (600, "Standard_B2s")
        assert (after.tags, after.zone) == (before.tags, before.zone)
