"""Operations from acceptance to their end, failures, and their journal (E2, E9, O7, IC1, IC2)."""

from hashlib import sha256

import pytest

from fairwarning.core.commands import (
    Command,
    Deallocate,
    Delete,
    Evict,
    Operate,
    OperateInstances,
    Recommend,
    RecordDelivery,
    RecordRefusal,
    Redeploy,
    Reimage,
    Restart,
    Scale,
    Start,
    StartRollout,
    Stop,
    Write,
    target_of,
)
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.errors import Refused
from fairwarning.core.model import ImpactKind, Power
from fairwarning.core.record import changed
from tests.contract.units import HOUR
from tests.fixtures.fleet import FleetHarness


def _to(capacity: int) -> Command:
    return Scale(set="web", operation="op", capacity=capacity)


def _of_instances(instance: int) -> Command:
    return OperateInstances(set="web", operation="op", action=Restart, instances=(instance,))


def _of_document(body: str) -> Command:
    return Write(resource="set:rg:web", operation="op", body=body)


def _rollout(name: str) -> Command:
    return StartRollout(rollout=name, operation="op", scopes=("web/0",))


def _of_machines(machine: str) -> Command:
    return Restart(scope="web/0", operation="op", machines=(machine,))


@pytest.mark.spec("E9")
@pytest.mark.parametrize("when", ["scheduled", "started", "over"])
def test_a_repeated_operation_has_the_effect_of_one(harness: FleetHarness, when: str) -> None:
    """Repeating an operation id changes nothing and returns the current operation."""
    harness.make_enabled("vm")
    command = Restart(scope="vm", operation="op", machines=("vm",))
    harness.do(command)
    if when != "scheduled":
        harness.approve("vm")
    if when == "over":
        harness.advance(60)
    before = harness.scope("vm"), harness.journal()
    assert harness.do(command) == harness.operation("op")
    assert (harness.scope("vm"), harness.journal()) == before


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    ("action", "kind", "power"),
    [
        (Reimage, ImpactKind.REIMAGE, Power.RUNNING),
        (Stop, ImpactKind.STOP, Power.STOPPED),
        (Deallocate, ImpactKind.DEALLOCATE, Power.DEALLOCATED),
        (Start, ImpactKind.START, Power.RUNNING),
    ],
)
def test_operations_without_notice(
    harness: FleetHarness, action: type[Operate], kind: ImpactKind, power: Power
) -> None:
    """Reimage, stop, deallocate and start give no notice and set the power state."""
    harness.make_enabled("vm")
    harness.operate(action, "vm", "vm")
    assert harness.events("vm") == []
    assert harness.impacts() == [("vm", kind)]
    harness.advance(HOUR)
    assert harness.succeeded("op")
    assert harness.machines("vm")["vm"].power is power
    assert harness.poll("vm")["DocumentIncarnation"] == 1


@pytest.mark.spec("E3")
@pytest.mark.parametrize("action", [Restart, Redeploy, Stop, Evict, Recommend])
def test_a_deallocated_machine_refuses_operations(
    harness: FleetHarness, action: type[Operate]
) -> None:
    """A deallocated machine can be neither restarted nor evicted."""
    harness.make_enabled("vm")
    harness.operate(Deallocate, "vm", "vm", name="away")
    harness.advance(60)
    error = harness.refusal(action(scope="vm", operation="op", machines=("vm",)))
    assert (error.code, error.status) == ("NotRunning", 409)
    harness.operate(Start, "vm", "vm", name="back")
    harness.advance(60)
    harness.operate(Restart, "vm", "vm", name="now")


@pytest.mark.spec("M16", "E4")
@pytest.mark.parametrize("action", [Restart, Delete, Stop])
def test_unknown_machines_and_scopes(harness: FleetHarness, action: type[Operate]) -> None:
    """A machine of another scope is unknown here, and the whole operation is refused."""
    harness.make_enabled("a", "b")
    error = harness.refusal(action(scope="a", operation="op", machines=("a", "b")))
    assert (error.code, error.status) == ("UnknownMachine", 404)
    error = harness.refusal(action(scope="c", operation="op", machines=("c",)))
    assert (error.code, error.status) == ("UnknownScope", 404)
    assert harness.statuses("a") == {}
    assert harness.impacts() == []


@pytest.mark.spec("E9")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (_to(5), _to(7)),
        (_of_instances(1), _of_instances(0)),
        (_of_machines("web_1"), _of_machines("web_0")),
        (_of_document("{}"), _of_document('{"tags":{}}')),
        (_rollout("one"), _rollout("two")),
        (_rollout("one"), _to(5)),
        (_to(5), _rollout("one")),
    ],
)
def test_an_operation_id_answers_for_its_own_command_only(
    harness: FleetHarness, first: Command, second: Command
) -> None:
    """Another capacity, instance, machine or document is another request (IC2)."""
    harness.make_scale_set(3)
    harness.do(first)
    harness.do(changed(first, actor="somebody else"))
    refused = harness.refusal(second)
    assert refused.code == "KeyReused"
    kind, target = type(first).__name__, target_of(first)
    assert (
        f"another request ({kind.replace('OperateInstances', 'Restart')} of '{target}')"
        in refused.message
    )


@pytest.mark.spec("E9")
def test_an_operation_id_answers_for_its_own_request_only(harness: FleetHarness) -> None:
    """A caller that says what was requested may repeat exactly that (IC2)."""
    harness.make_scale_set(3)
    harness.do(changed(_to(5), request="PUT a"))
    harness.do(changed(_to(5), request="PUT a"))
    harness.do(_to(5))
    refused = harness.refusal(changed(_to(5), request="PUT b"))
    assert refused.code == "KeyReused"
    assert "another request (PUT a), and cannot be used for this one (PUT b)" in refused.message


@pytest.mark.parametrize(("characters", "digest"), [(59, f"('{'x' * 59}',)"), (60, None)])
def test_what_is_kept_of_a_command(
    harness: FleetHarness, characters: int, digest: str | None
) -> None:
    """Up to 64 characters of what it says beside its kind and target, else a hash of them."""
    name = "x" * characters
    harness.standalone(name)
    harness.operate(Restart, name, name)
    kept = harness.operation("op").digest
    assert kept == (digest or sha256(f"('{name}',)".encode()).hexdigest())


def newest(harness: FleetHarness, kind: FactType) -> list[Fact]:
    """The facts of a type, in order."""
    return [entry.line.fact for entry in harness.journal() if entry.line.fact.type is kind]


@pytest.mark.spec("O7")
def test_a_delivery(harness: FleetHarness) -> None:
    """It names the event, its readers and the operation; nothing is journaled once it has ended."""
    harness.availability_set("av", 2)
    harness.poll("av")
    harness.operate(Restart, "av", "av0", name="restart")
    event = harness.only_event("av").id
    before = harness.scope("av")
    harness.do(RecordDelivery(scope="av", event=event, machines=("av0", "av1")))
    expected = Fact(FactType.DELIVERED, event, ("av0", "av1"), "restart")
    assert newest(harness, FactType.DELIVERED) == [expected]
    assert harness.scope("av").incarnation == before.incarnation
    harness.cancel("av", "av0")
    harness.do(RecordDelivery(scope="av", event=event, machines=("av0",)))
    assert newest(harness, FactType.DELIVERED) == [expected]


@pytest.mark.spec("O7")
def test_a_refused_approval(harness: FleetHarness) -> None:
    """It names the machine and the reason, and changes nothing."""
    harness.standalone("vm")
    before = harness.scope("vm")
    harness.do(RecordRefusal(scope="vm", machine="vm", reason="no header"))
    (fact,) = newest(harness, FactType.APPROVAL_REFUSED)
    assert fact == Fact(FactType.APPROVAL_REFUSED, machines=("vm",), detail="no header")
    harness.do(RecordRefusal(scope="vm", machine="gone", reason="no header"))
    assert newest(harness, FactType.APPROVAL_REFUSED) == [fact]
    assert harness.scope("vm") == before


@pytest.mark.spec("O7")
def test_an_unknown_event_is_named(harness: FleetHarness) -> None:
    """The refusal shows the start of the id, and where the known ones are."""
    harness.make_enabled("vm")
    with pytest.raises(Refused, match=r"this scope has no event 'E{60}'; its document lists those"):
        harness.approve_as_machine("vm", "E" * 100)
