"""Maintenance configurations, their assignments, and pending maintenance (C1)."""

import pytest

from fairwarning.core.commands import Maintain, StartRollout
from fairwarning.core.model import ImpactKind
from fairwarning.core.times import iso
from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import (
    AV,
    AV_SCOPE,
    COMPUTE,
    VM,
    VM_SCOPE,
    WEB,
    WEB_SCOPE,
    Json,
    created,
    machine,
    refused,
    scale_set,
    visible_events,
)
from tests.arm.everything import state
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C1")

CONFIGURATION = "/resourceGroups/rg/providers/Microsoft.Maintenance/maintenanceConfigurations/night"
ASSIGNMENT = "providers/Microsoft.Maintenance/configurationAssignments/night"
MAINTENANCE = "providers/Microsoft.Maintenance"


def configure(arm: ArmHarness, path: str = CONFIGURATION, **properties: object) -> Json:
    """Write a configuration, as `az maintenance configuration create` does."""
    start = iso(int(arm.clock.now()) + 24 * 3600)[:16].replace("T", " ")
    window = {"startDateTime": start, "duration": "04:00", "recurEvery": "Day", "timeZone": "UTC"}
    body = {"maintenanceScope": "Host", "maintenanceWindow": window, **properties}
    return created(arm.put(path, {"location": "local", "properties": body}))


def assign(arm: ArmHarness, path: str, configuration: str = CONFIGURATION) -> Json:
    """Assign a configuration, as `az maintenance assignment create` does."""
    properties = {"maintenanceConfigurationId": f"{SUBSCRIPTION}{configuration}"}
    return created(arm.put(f"{path}/{ASSIGNMENT}", {"properties": properties}))


def window(arm: ArmHarness, scope: str) -> str:
    """Return the window of a scope."""
    return arm.scope(scope).rules.maintenance_window


def fill(arm: ArmHarness) -> None:
    """Create a machine, a scale set and an availability set with a machine."""
    machine(arm)
    scale_set(arm)
    created(arm.put(AV, {"location": "local"}))
    inside = {"availabilitySet": {"id": f"{SUBSCRIPTION}{AV}"}}
    machine(arm, f"{COMPUTE}/virtualMachines/inside", **inside)


def test_a_configuration() -> None:
    """`az maintenance configuration create|show|list|update|delete`."""
    with ArmHarness() as arm:
        arm.group()
        document = configure(arm)
        assert document["id"] == f"{SUBSCRIPTION}{CONFIGURATION}"
        assert document["properties"]["visibility"] == "Custom"
        assert arm.get(CONFIGURATION).json == document
        for path in ("", "/resourceGroups/rg"):
            listed = arm.get(f"{path}/{MAINTENANCE}/maintenanceConfigurations").json["value"]
            assert listed == [document]
        assert "night" in [r["name"] for r in arm.get("/resources").json["value"]]
        changed = arm.patch(CONFIGURATION, {"tags": {"a": "b"}}).json
        assert changed["tags"] == {"a": "b"}
        assert changed["properties"] == document["properties"]
        assert arm.delete(CONFIGURATION).status == 200
        assert arm.delete(CONFIGURATION).status == 204
        assert arm.get(CONFIGURATION).status == 404


@pytest.mark.parametrize(
    ("path", "scope"), [(VM, VM_SCOPE), (AV, AV_SCOPE), (WEB, WEB_SCOPE)], ids=["vm", "av", "set"]
)
def test_an_assignment_moves_a_rollout(path: str, scope: str) -> None:
    """`az maintenance assignment create`: the maintenance of a rollout is in the window."""
    with ArmHarness() as arm:
        fill(arm)
        configure(arm)
        assignment = assign(arm, path)
        assert assignment["id"] == f"{SUBSCRIPTION}{path}/{ASSIGNMENT}"
        assert assignment["properties"]["resourceId"] == f"{SUBSCRIPTION}{path}"
        assert window(arm, scope).endswith("PT4H Day")
        assert arm.get(f"{path}/{ASSIGNMENT}").json == assignment
        for listed in (f"{path}/{MAINTENANCE}", f"/{MAINTENANCE}"):
            listing = arm.get(f"{listed}/configurationAssignments").json["value"]
            assert listing == [assignment]
        arm.poll(scope)
        opens = arm.clock.now() + 24 * 3600
        arm.do(StartRollout(rollout="up", scopes=(scope,), kind=ImpactKind.REBOOT))
        assert visible_events(arm, scope) == []
        for _ in range(24):
            arm.advance(3600)
            arm.poll(scope)
        (event, *_) = arm.scope(scope).events.values()
        assert event.not_before >= opens - 60


def test_a_changed_configuration() -> None:
    """A new window reaches everything that it is assigned to; without an assignment it is gone."""
    with ArmHarness() as arm:
        fill(arm)
        configure(arm)
        for path in (VM, AV, WEB):
            assign(arm, path)
        later = {"startDateTime": "2030-01-01 00:00", "duration": "02:00"}
        arm.patch(CONFIGURATION, {"properties": {"maintenanceWindow": later}})
        scopes = (VM_SCOPE, AV_SCOPE, WEB_SCOPE)
        assert {window(arm, scope) for scope in scopes} == {"2030-01-01T00:00+00:00 PT2H Day"}
        refusal = arm.delete(CONFIGURATION)
        assert refused(refusal) == (409, "OperationNotAllowed")
        assert "3 assignments" in refusal.error_message
        for path in (VM, AV, WEB):
            assert arm.delete(f"{path}/{ASSIGNMENT}").status == 200
            assert arm.delete(f"{path}/{ASSIGNMENT}").status == 204
        assert {window(arm, scope) for scope in scopes} == {""}
        assert arm.get(f"{WEB}/virtualMachines/0").json["properties"]["latestModelApplied"] is True
        assert arm.delete(CONFIGURATION).status == 200


def test_other_scopes_have_no_effect() -> None:
    """A configuration for patches in the guest is stored and shown; a group may have one, too."""
    with ArmHarness() as arm:
        fill(arm)
        configure(arm, maintenanceScope="InGuestPatch")
        assign(arm, VM)
        assert window(arm, VM_SCOPE) == ""
        assign(arm, "/resourceGroups/rg")
        assert arm.get(f"/resourceGroups/rg/{ASSIGNMENT}").json["name"] == "night"


def test_refused_assignments() -> None:
    """What cannot be assigned is refused, and nothing changes."""
    with ArmHarness() as arm:
        fill(arm)
        configure(arm)
        other = CONFIGURATION.replace("rg", "other")
        arm.group("other")
        configure(arm, other)
        before = state(arm)
        good = {"properties": {"maintenanceConfigurationId": f"{SUBSCRIPTION}{CONFIGURATION}"}}
        foreign = {"properties": {"maintenanceConfigurationId": f"{SUBSCRIPTION}{other}"}}
        ann = Principal(name="ann", role=Role.TENANT, group="rg")
        inside = f"{COMPUTE}/virtualMachines/inside"
        bad: list[tuple[str, Json, tuple[int, str]]] = [
            (VM, {}, (400, "InvalidParameter")),
            (VM, {"properties": {"maintenanceConfigurationId": VM}}, (400, "InvalidParameter")),
            (f"{VM}2", good, (404, "ResourceNotFound")),
            (f"{COMPUTE}/disks/one", good, (404, "InvalidResourceType")),
            (inside, good, (409, "OperationNotAllowed")),
            ("/resourceGroups/rg", good, (409, "OperationNotAllowed")),
        ]
        for path, body, expected in bad:
            assert refused(arm.put(f"{path}/{ASSIGNMENT}", body)) == expected, path
        response = arm.put(f"{VM}/{ASSIGNMENT}", foreign, principal=ann)
        assert refused(response) == (404, "ResourceNotFound")
        assert state(arm) == before
        assign(arm, VM)
        second = arm.put(f"{VM}/{MAINTENANCE}/configurationAssignments/second", good)
        assert refused(second) == (409, "OperationNotAllowed")


def test_refused_configurations() -> None:
    """A configuration needs a known scope and a valid window, which cannot change its scope."""
    with ArmHarness() as arm:
        arm.group()
        for properties, allowed in (
            ({}, "Host, Resource"),
            ({"maintenanceScope": "Moon"}, "Host, Resource"),
            ({"maintenanceScope": "Host", "visibility": "Secret"}, "Custom, Public"),
            ({"maintenanceScope": "Host", "maintenanceWindow": {"duration": "1"}}, "02:00"),
        ):
            response = arm.put(CONFIGURATION, {"location": "local", "properties": properties})
            assert refused(response) == (400, "InvalidParameter")
            assert allowed in response.error_message
        assert arm.get(CONFIGURATION).status == 404
        configure(arm)
        change = {"properties": {"maintenanceScope": "OSImage"}}
        assert refused(arm.patch(CONFIGURATION, change)) == (409, "PropertyChangeNotAllowed")


@pytest.mark.parametrize(
    ("path", "scope", "name"),
    [
        (VM, VM_SCOPE, "vm"),
        (AV, AV_SCOPE, "inside"),
        (WEB, WEB_SCOPE, "web_0"),
        (f"{WEB}/virtualMachines/0", WEB_SCOPE, "web_0"),
    ],
)
def test_pending_maintenance(path: str, scope: str, name: str) -> None:
    """`az maintenance update list` shows it, and `az maintenance applyupdate create` starts it."""
    with ArmHarness() as arm:
        fill(arm)
        updates, apply = f"{path}/{MAINTENANCE}/updates", f"{path}/{MAINTENANCE}/applyUpdates"
        assert arm.get(updates).json["value"] == []
        nothing = arm.put(f"{apply}/default", None)
        assert (nothing.status, nothing.json["properties"]["status"]) == (200, "NoUpdatesPending")
        arm.poll(scope)
        maintain = Maintain(scope=scope, operation="op", machines=(name,), kind=ImpactKind.REBOOT)
        arm.do(maintain)
        (update,) = arm.get(updates).json["value"]
        (event,) = arm.scope(scope).events.values()
        assert update == {
            "maintenanceScope": "Host",
            "impactType": "Restart",
            "status": "Pending",
            "impactDurationInSec": 0,
            "notBefore": iso(event.not_before),
            "properties": {"resourceId": f"{SUBSCRIPTION}{path}"},
        }
        assert arm.get(f"{apply}/default").json["properties"]["status"] == "Pending"
        applied = arm.put(f"{apply}/default", None)
        assert applied.status == 201
        assert [status for _, status, _ in visible_events(arm, scope)] == ["Started"]
        (update,) = arm.get(updates).json["value"]
        assert update["status"] == "InProgress"
        name = applied.json["name"]
        assert arm.get(f"{apply}/{name}").json["properties"]["status"] == "InProgress"
        arm.advance(3600)
        assert arm.get(f"{apply}/{name}").json["properties"]["status"] == "Completed"
        assert arm.get(f"{apply}/default").json["properties"]["status"] == "NoUpdatesPending"
        assert arm.get(updates).json["value"] == []


def test_updates_of_others() -> None:
    """An apply update is shown only for the resource that it is about."""
    with ArmHarness() as arm:
        fill(arm)
        arm.poll(VM_SCOPE)
        arm.do(Maintain(scope=VM_SCOPE, operation="op", machines=("vm",)))
        name = arm.put(f"{VM}/{MAINTENANCE}/applyUpdates/default", None).json["name"]
        for path in (f"{COMPUTE}/virtualMachines/inside", WEB):
            response = arm.get(f"{path}/{MAINTENANCE}/applyUpdates/{name}")
            assert refused(response) == (404, "NotFound")
        assert refused(arm.get(f"{VM}/{MAINTENANCE}/applyUpdates/x")) == (404, "NotFound")
        disk = f"{COMPUTE}/disks/one/{MAINTENANCE}/updates"
        assert refused(arm.get(disk)) == (404, "InvalidResourceType")
        response = arm.put(f"{VM}/{MAINTENANCE}/applyUpdates/other", None)
        assert refused(response) == (400, "InvalidParameter")
