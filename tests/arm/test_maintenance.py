import pytest

from fairwarning.core.commands import Maintain
from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import (
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
    told,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

VERSION = "2023-10-01-preview"
NOBODY = "00000000-0000-0000-0000-000000000000"


def events(path: str) -> str:
    """Where the events of a resource are."""
    return f"{path}/providers/Microsoft.Maintenance/scheduledevents"


def announced(arm: ArmHarness, path: str, scope: str) -> str:
    """A restart that its machine has been told of; the event's id."""
    arm.poll(scope)
    assert arm.post(f"{path}/restart").status == 202
    return arm.events(scope)[-1].id


@pytest.mark.spec("C5")
@pytest.mark.parametrize("spelt", [str.upper, str.lower])
def test_an_event_of_a_machine(spelt: object) -> None:
    """It starts, and happens; the id may be spelt either way, and be acknowledged twice."""
    assert callable(spelt)
    with ArmHarness() as arm:
        machine(arm)
        event = spelt(announced(arm, VM, VM_SCOPE))
        for _ in range(2):
            answer = arm.post(f"{events(VM)}/{event}/acknowledge", version=VERSION)
            assert (answer.status, answer.json) == (200, {"value": "Successfully Approved"})
            assert told(arm, VM_SCOPE) == [("Reboot", "Started", ["vm"])]
        arm.advance(60)
        assert told(arm, VM_SCOPE) == []


@pytest.mark.spec("C5")
def test_events_of_an_availability_set() -> None:
    """Through the set, or through any machine in it."""
    with ArmHarness() as arm:
        arm.group()
        created(arm.put(AV, {"location": "local"}))
        inside = {"availabilitySet": {"id": f"{SUBSCRIPTION}{AV}"}}
        for name in ("a", "b"):
            machine(arm, f"{COMPUTE}/virtualMachines/{name}", **inside)
        first = announced(arm, f"{COMPUTE}/virtualMachines/a", AV_SCOPE)
        second = announced(arm, f"{COMPUTE}/virtualMachines/b", AV_SCOPE)
        assert arm.post(f"{events(AV)}/{first}/acknowledge").status == 200
        through = events(f"{COMPUTE}/virtualMachines/a")
        assert arm.post(f"{through}/{second}/acknowledge").status == 200
        assert {state for _, state, _ in told(arm, AV_SCOPE)} == {"Started"}


@pytest.mark.spec("C5")
def test_several_events_of_a_scale_set() -> None:
    """Over all its placement groups at once."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=101)
        scopes = (WEB_SCOPE, "rg:web/1")
        for scope, number in zip(scopes, (0, 100), strict=True):
            arm.poll(scope)
            arm.post(f"{WEB}/virtualMachines/{number}/restart")
        ids = [event.id for scope in scopes for event in arm.events(scope)]
        answer = arm.post(
            f"{events(WEB)}/acknowledge",
            {"value": [ids[0].lower(), ids[1], ids[0]]},
            version="2025-10-01-preview",
        )
        assert (answer.status, answer.json) == (200, {"value": "Successfully Approved"})
        assert [told(arm, scope)[0][1] for scope in scopes] == ["Started", "Started"]


@pytest.mark.spec("C5")
def test_all_or_none() -> None:
    """An id that is unknown, or another resource's, is named with 404; nothing is approved then."""
    with ArmHarness() as arm:
        scale_set(arm, capacity=1)
        machine(arm)
        known = announced(arm, WEB, WEB_SCOPE)
        foreign = announced(arm, VM, VM_SCOPE)
        for other in (NOBODY, foreign, "x"):
            one = arm.post(f"{events(WEB)}/{other}/acknowledge")
            assert refused(one) == (404, "ResourceNotFound")
            several = arm.post(f"{events(WEB)}/acknowledge", {"value": [known, other]})
            assert refused(several) == (404, "ResourceNotFound")
            assert other.upper() in several.error_message.upper()
        states = {state for scope in (WEB_SCOPE, VM_SCOPE) for _, state, _ in told(arm, scope)}
        assert states == {"Scheduled"}


@pytest.mark.parametrize("body", [None, {}, {"value": []}, {"value": "x"}, {"value": [1]}])
def test_a_list_that_is_none(body: object) -> None:
    """It is refused."""
    with ArmHarness() as arm:
        machine(arm)
        answer = arm.post(f"{events(VM)}/acknowledge", body)
        assert refused(answer) == (400, "InvalidParameter")


def test_what_has_no_events() -> None:
    """404, for what is not there and for what is no machine and no set of some."""
    with ArmHarness() as arm:
        arm.group()
        for path, code in (
            (VM, "ResourceNotFound"),
            (WEB, "ResourceNotFound"),
            (AV, "ResourceNotFound"),
            (f"{COMPUTE}/disks/d", "InvalidResourceType"),
        ):
            answer = arm.post(f"{events(path)}/{NOBODY}/acknowledge")
            assert refused(answer) == (404, code)


@pytest.mark.spec("C5", "T5")
def test_maintenance_and_who_let_it_begin() -> None:
    """What the platform announced starts as well, and the journal names whoever said so."""
    ann = Principal(name="ann", role=Role.TENANT, group="rg")
    with ArmHarness() as arm:
        machine(arm)
        arm.poll(VM_SCOPE)
        arm.do(Maintain(scope=VM_SCOPE, operation="host", machines=("vm",)))
        (event,) = arm.events(VM_SCOPE)
        arm.post(f"{events(VM)}/{event.id}/acknowledge", principal=ann)
        assert told(arm, VM_SCOPE) == [("Freeze", "Started", ["vm"])]
        assert actors(arm, "Approved") == {"ann"}
