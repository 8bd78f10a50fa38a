import pytest

from fairwarning.core.commands import Maintain
from tests.arm.bodies import (
    ANN,
    AV,
    AV_SCOPE,
    COMPUTE,
    VM,
    VM_SCOPE,
    WEB,
    WEB_SCOPE,
    actors,
    created,
    machine,
    refused,
    scale_set,
    visible_events,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

VERSION = "2023-10-01-preview"
UNKNOWN_EVENT = "00000000-0000-0000-0000-000000000000"


def events(path: str) -> str:
    """Return the path of a resource's events."""
    return f"{path}/providers/Microsoft.Maintenance/scheduledevents"


def schedule_restart(arm: ArmHarness, path: str, scope: str) -> str:
    """Schedule a restart that the machine sees, and return the event's id."""
    arm.poll(scope)
    assert arm.post(f"{path}/restart").status == 202
    return arm.events(scope)[-1].id


@pytest.mark.spec("C5")
@pytest.mark.parametrize("change_case", [str.upper, str.lower])
def test_an_event_of_a_machine(arm: ArmHarness, change_case: object) -> None:
    """An acknowledged event starts; ids are case-insensitive, and a repeat is allowed."""
    assert callable(change_case)
    machine(arm)
    event = change_case(schedule_restart(arm, VM, VM_SCOPE))
    for _ in range(2):
        response = arm.post(f"{events(VM)}/{event}/acknowledge", version=VERSION)
        assert (response.status, response.json) == (200, {"value": "Successfully Approved"})
        assert visible_events(arm, VM_SCOPE) == [("Reboot", "Started", ["vm"])]
    arm.advance(60)
    assert visible_events(arm, VM_SCOPE) == []


@pytest.mark.spec("C5")
def test_events_of_an_availability_set(arm: ArmHarness) -> None:
    """An event can be acknowledged through the set or any of its machines."""
    created(arm.put(AV, {"location": "local"}))
    inside = {"availabilitySet": {"id": f"{SUBSCRIPTION}{AV}"}}
    for name in ("a", "b"):
        machine(arm, f"{COMPUTE}/virtualMachines/{name}", **inside)
    first = schedule_restart(arm, f"{COMPUTE}/virtualMachines/a", AV_SCOPE)
    second = schedule_restart(arm, f"{COMPUTE}/virtualMachines/b", AV_SCOPE)
    assert arm.post(f"{events(AV)}/{first}/acknowledge").status == 200
    through = events(f"{COMPUTE}/virtualMachines/a")
    assert arm.post(f"{through}/{second}/acknowledge").status == 200
    assert {state for _, state, _ in visible_events(arm, AV_SCOPE)} == {"Started"}


@pytest.mark.spec("C5")
def test_several_events_of_a_scale_set(arm: ArmHarness) -> None:
    """Events of several placement groups can be acknowledged at once."""
    scale_set(arm, capacity=101)
    scopes = (WEB_SCOPE, "rg:web/1")
    for scope, number in zip(scopes, (0, 100), strict=True):
        arm.poll(scope)
        arm.post(f"{WEB}/virtualMachines/{number}/restart")
    ids = [event.id for scope in scopes for event in arm.events(scope)]
    response = arm.post(
        f"{events(WEB)}/acknowledge",
        {"value": [ids[0].lower(), ids[1], ids[0]]},
        version="2025-10-01-preview",
    )
    assert (response.status, response.json) == (200, {"value": "Successfully Approved"})
    assert [visible_events(arm, scope)[0][1] for scope in scopes] == ["Started", "Started"]


@pytest.mark.spec("C5")
def test_all_or_none(arm: ArmHarness) -> None:
    """If an id is unknown or belongs to another resource, nothing is approved."""
    scale_set(arm, capacity=1)
    machine(arm)
    known = schedule_restart(arm, WEB, WEB_SCOPE)
    foreign = schedule_restart(arm, VM, VM_SCOPE)
    for other in (UNKNOWN_EVENT, foreign, "x"):
        single = arm.post(f"{events(WEB)}/{other}/acknowledge")
        assert refused(single) == (404, "ResourceNotFound")
        several = arm.post(f"{events(WEB)}/acknowledge", {"value": [known, other]})
        assert refused(several) == (404, "ResourceNotFound")
        assert other.upper() in several.error_message.upper()
    states = {
        state for scope in (WEB_SCOPE, VM_SCOPE) for _, state, _ in visible_events(arm, scope)
    }
    assert states == {"Scheduled"}


@pytest.mark.parametrize("body", [None, {}, {"value": []}, {"value": "x"}, {"value": [1]}])
def test_invalid_lists(arm: ArmHarness, body: object) -> None:
    """An invalid list of events is refused."""
    machine(arm)
    response = arm.post(f"{events(VM)}/acknowledge", body)
    assert refused(response) == (400, "InvalidParameter")


def test_resources_without_events(arm: ArmHarness) -> None:
    """A missing resource, or one of another type, returns 404."""
    for path, code in (
        (VM, "ResourceNotFound"),
        (WEB, "ResourceNotFound"),
        (AV, "ResourceNotFound"),
        (f"{COMPUTE}/disks/d", "InvalidResourceType"),
    ):
        response = arm.post(f"{events(path)}/{UNKNOWN_EVENT}/acknowledge")
        assert refused(response) == (404, code)


@pytest.mark.spec("C5", "T5")
def test_platform_maintenance(arm: ArmHarness) -> None:
    """Platform maintenance can be acknowledged, and the journal names the principal."""
    machine(arm)
    arm.poll(VM_SCOPE)
    arm.do(Maintain(scope=VM_SCOPE, operation="host", machines=("vm",)))
    (event,) = arm.events(VM_SCOPE)
    arm.post(f"{events(VM)}/{event.id}/acknowledge", principal=ANN)
    assert visible_events(arm, VM_SCOPE) == [("Freeze", "Started", ["vm"])]
    assert actors(arm, "Approved") == {"ann"}
