"""Actions on a machine: the same for a machine alone, in a set, and for an instance (C1)."""

from dataclasses import dataclass

import pytest

from fairwarning.core.commands import Maintain
from fairwarning.core.model import ImpactKind
from tests.arm.bodies import (
    ANN,
    AV,
    AV_SCOPE,
    COMPUTE,
    VM,
    VM_SCOPE,
    WEB,
    WEB_SCOPE,
    Json,
    actors,
    created,
    machine,
    notice,
    policy,
    refused,
    scale_set,
    visible_events,
)
from tests.arm.everything import state
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C1")


@dataclass(frozen=True)
class Place:
    """A machine: its path, its scope and its name, and the resource that has its policy."""

    path: str
    scope: str
    name: str
    owner: str

    def create(self, arm: ArmHarness, profile: Json | None = None) -> None:
        """Create the machine with this profile and start polling as it."""
        arm.group()
        if self.owner == AV:
            created(arm.put(AV, {"location": "local"}))
        if self.owner == WEB:
            mode = "Flexible" if self.path.startswith(f"{COMPUTE}/virtualMachines/") else "Uniform"
            scale_set(arm, capacity=1, model=profile, orchestrationMode=mode)
        else:
            owned = {"availabilitySet": {"id": f"{SUBSCRIPTION}{AV}"}} if self.owner == AV else {}
            machine(arm, self.path, **owned, **(profile or {}))
        arm.poll(self.scope)

    def events(self, arm: ArmHarness) -> list[tuple[str, str]]:
        """Return the types and states of the events that the machine sees."""
        events = visible_events(arm, self.scope)
        assert all(names == [self.name] for _, _, names in events)
        return [(kind, status) for kind, status, _ in events]


ALONE = Place(VM, VM_SCOPE, "vm", VM)
IN_SET = Place(VM, AV_SCOPE, "vm", AV)
INSTANCE = Place(f"{WEB}/virtualMachines/0", WEB_SCOPE, "web_0", WEB)
FLEXIBLE = Place(f"{COMPUTE}/virtualMachines/web_0", WEB_SCOPE, "web_0", WEB)
PLACES = {"alone": ALONE, "in-set": IN_SET, "instance": INSTANCE, "flexible": FLEXIBLE}
SET = Place(WEB, WEB_SCOPE, "web_0", WEB)

everywhere = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
everywhere_and_set = pytest.mark.parametrize("place", [*PLACES.values(), SET], ids=[*PLACES, "set"])


def power(arm: ArmHarness, place: Place) -> str:
    """Return the power state of a machine."""
    path = INSTANCE.path if place == SET else place.path
    statuses = arm.get(f"{path}/instanceView").json["statuses"]
    (code,) = (s["code"] for s in statuses if s["code"].startswith("PowerState/"))
    return str(code).partition("/")[2]


@pytest.mark.spec("E3", "T4")
@pytest.mark.parametrize(
    ("action", "kind", "event", "left"),
    [
        ("restart", ImpactKind.REBOOT, "Reboot", "running"),
        ("redeploy", ImpactKind.REDEPLOY, "Redeploy", "running"),
        ("reimage", ImpactKind.REIMAGE, "", "running"),
        ("deallocate", ImpactKind.DEALLOCATE, "", "deallocated"),
        ("powerOff", ImpactKind.STOP, "", "stopped"),
        ("start", ImpactKind.START, "", "running"),
    ],
)
@everywhere_and_set
def test_actions(
    arm: ArmHarness, place: Place, action: str, *, kind: ImpactKind, event: str, left: str
) -> None:
    """Some are announced, the others happen at once; the operation ends after the impact."""
    place.create(arm, notice())
    accepted = arm.post(f"{place.path}/{action}")
    assert accepted.status == 202, accepted.body
    assert place.events(arm) == ([(event, "Scheduled")] if event else [])
    assert bool(arm.driver.impacts) is not bool(event)
    assert arm.ended(accepted)["status"] == "InProgress"
    arm.advance(15 * 60 + 300)
    assert place.events(arm) == []
    assert arm.ended(accepted)["status"] == "Succeeded"
    assert [(i.machine, i.kind) for i in arm.driver.impacts] == [(place.name, kind)]
    assert power(arm, place) == left


@everywhere_and_set
def test_scheduled_maintenance_can_start_now(arm: ArmHarness, place: Place) -> None:
    """A user can start scheduled platform maintenance; without any, the request is refused."""
    place.create(arm)
    path = f"{place.path}/performMaintenance"
    assert refused(arm.post(path)) == (409, "OperationNotAllowed")
    arm.post(f"{place.path}/restart")
    assert refused(arm.post(path)) == (409, "OperationNotAllowed")
    arm.advance(1000)
    redeploy = Maintain(
        scope=place.scope, operation="host", machines=(place.name,), kind=ImpactKind.REDEPLOY
    )
    arm.do(redeploy)
    if place != SET:
        offered = arm.get(f"{place.path}/instanceView").json["maintenanceRedeployStatus"]
        assert offered["isCustomerInitiatedMaintenanceAllowed"] is True
    accepted = arm.post(path)
    assert place.events(arm) == [("Redeploy", "Started")]
    assert arm.ended(accepted)["status"] == "InProgress"
    arm.advance(240)
    assert arm.ended(accepted)["status"] == "Succeeded"


@pytest.mark.spec("E8")
@everywhere
def test_a_policy_approves_user_initiated_events(arm: ArmHarness, place: Place) -> None:
    """A policy of the machine or its set applies to its kind only, also if it is added later."""
    place.create(arm)
    assert arm.patch(place.owner, {"properties": policy(reboot=True)}).status == 200
    arm.post(f"{place.path}/restart")
    assert place.events(arm) == [("Reboot", "Started")]
    arm.advance(60)
    arm.post(f"{place.path}/redeploy")
    assert place.events(arm) == [("Redeploy", "Scheduled")]
    arm.advance(1000)
    assert arm.patch(place.owner, {"properties": policy(redeploy=True)}).status == 200
    arm.post(f"{place.path}/redeploy")
    assert place.events(arm) == [("Redeploy", "Started")]


@everywhere
def test_the_journal_names_the_actor(arm: ArmHarness, place: Place) -> None:
    """Every change that follows from a request names its principal."""
    arm.principal = ANN
    place.create(arm, notice())
    arm.post(f"{place.path}/restart")
    arm.delete(place.path)
    for fact in ("ScopeCreated", "Scheduled", "OperationAccepted"):
        assert actors(arm, fact) <= {"ann"}, fact
    assert actors(arm, "Scheduled") == {"ann"}


@pytest.mark.parametrize("place", [ALONE, FLEXIBLE], ids=["alone", "flexible"])
def test_reapply(arm: ArmHarness, place: Place) -> None:
    """`az vm reapply` is accepted and does nothing to the machine."""
    place.create(arm)
    before = arm.scope(place.scope)
    response = arm.post(f"{place.path}/reapply")
    assert response.status in {200, 202}
    assert arm.scope(place.scope).machines == before.machines
    assert arm.driver.impacts == []
    assert refused(arm.post(f"{place.path}2/reapply")) == (404, "ResourceNotFound")


REFUSED = (
    "generalize", "capture", "assessPatches", "installPatches", "retrieveBootDiagnosticsData",
    "runCommand", "convertToManagedDisks",
)  # fmt: skip
ROLLING = "osRollingUpgrade", "extensionRollingUpgrade"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        *((f"{VM}/{action}", f"'{action}' is not supported") for action in REFUSED),
        *((f"{WEB}/{action}", "manualupgrade") for action in ROLLING),
    ],
)
def test_refused_actions(arm: ArmHarness, path: str, text: str) -> None:
    """Refused by name; `az vmss rolling-upgrade` is told how else instances get a new model."""
    machine(arm)
    scale_set(arm)
    before = state(arm)
    response = arm.post(path, {})
    assert refused(response) == (409, "OperationNotAllowed")
    assert text in response.error_message
    assert state(arm) == before
