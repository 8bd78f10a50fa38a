"""Operations and rollouts over several scopes: how they end; impossible input is a reported bug."""

import pytest

from fairwarning.core import cascade, lanes, operation, rollout
from fairwarning.core.commands import CreateSet, Poll, Restart
from fairwarning.core.decision import EVENT_ENDED, FactType, OperationProgress
from fairwarning.core.errors import Bug, NotFound
from fairwarning.core.model import (
    ImpactKind,
    Lane,
    Machine,
    Operation,
    OperationStatus,
    Rollout,
    Scope,
    ScopeKind,
)

ROLLOUT = Rollout(
    id="r", kind=ImpactKind.FREEZE, actor="a", started_at=0, batch=1, lanes=1, machines=1
)
LANE = Lane(id="r/0", rollout="r", number=0, steps=({"s": ("m",)},))


def test_misdirected_commands() -> None:
    """A rollout and a lane accept only their own commands."""
    misdirected = Poll(scope="s")
    with pytest.raises(AssertionError):
        rollout.decide(ROLLOUT, misdirected, lambda _: None, 0)
    with pytest.raises(AssertionError):
        lanes.decide(LANE, ROLLOUT, misdirected, lambda _: None, lanes.Moment(0, 0))
    with pytest.raises(NotFound):
        rollout.decide(None, misdirected, lambda _: None, 0)


def test_an_operation_ends_once() -> None:
    """An ended operation accepts no more progress and does not end again (IC1)."""
    running = Operation(id="o", kind="Restart", actor="a", accepted_at=0, planned=3, done=1)
    half = operation.settle(running, OperationProgress("o", done=1), 5).entity
    assert isinstance(half, Operation)
    assert (half.done, half.status, half.ended_at) == (2, OperationStatus.RUNNING, None)
    ended = operation.settle(half, OperationProgress("o", done=1), 6).entity
    assert isinstance(ended, Operation)
    assert (ended.done, ended.status, ended.ended_at) == (3, OperationStatus.SUCCEEDED, 6)
    with pytest.raises(Bug, match="has already ended"):
        operation.settle(ended, OperationProgress("o", done=1), 7)


@pytest.mark.parametrize(
    ("done", "failed", "cancelled", "status"),
    [
        (0, 0, 0, OperationStatus.SUCCEEDED),
        (2, 0, 0, OperationStatus.SUCCEEDED),
        (1, 0, 1, OperationStatus.SUCCEEDED),
        (0, 0, 2, OperationStatus.CANCELED),
        (1, 1, 0, OperationStatus.FAILED),
        (0, 1, 1, OperationStatus.FAILED),
    ],
)
def test_how_an_operation_ends(
    done: int, failed: int, cancelled: int, status: OperationStatus
) -> None:
    """One failure fails an operation; if nothing was done it is Canceled; else it succeeds."""
    running = Operation(
        id="o", kind="Restart", actor="a", accepted_at=0, planned=done + failed + cancelled
    )
    ended = operation.settle(
        running, OperationProgress("o", done=done, failed=failed, cancelled=cancelled), 1
    ).entity
    assert isinstance(ended, Operation)
    assert ended.status is status


def test_a_cascade_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless cascade is a bug; it stops the writer instead of hanging it."""
    monkeypatch.setattr(cascade, "_MESSAGES_AT_MOST", 2)
    with pytest.raises(Bug, match="messages without end"):
        cascade.run(CreateSet(set="s", capacity=500), 0, lambda _: None)


def test_fleet_time_is_wall_time_unless_the_caller_says_otherwise() -> None:
    """A machine then reads the NotBefore that the rules decided on (E11)."""
    scope = Scope(
        id="vm", kind=ScopeKind.STANDALONE, machines={"vm": Machine(name="vm")}, incarnation=1
    )
    command = Restart(scope="vm", machines=("vm",), operation="op")
    for options, ahead in (({}, 0), ({"clock_ahead": 60}, 60)):
        outcome = cascade.run(command, 0, {(Scope, "vm"): scope}.get, **options)  # type: ignore[arg-type]
        _, after = outcome.changes[Scope, "vm"]
        assert isinstance(after, Scope)
        assert [event.clock_ahead for event in after.events.values()] == [ahead]


def test_a_missing_entity_is_reported() -> None:
    """Deciding needs no store: it reports the missing entity and is run again."""

    def get(ref: object) -> None:
        raise cascade.EntityNotLoaded(ref)  # type: ignore[arg-type]

    with pytest.raises(cascade.EntityNotLoaded) as missing:
        cascade.run(CreateSet(set="s", capacity=1), 0, get)
    assert missing.value.ref[1] == "s"


def test_progress_is_added() -> None:
    """Counts are added; the first error stays, and when the first corrected impact began."""
    first = OperationProgress("op", 1, 2, 3, 4, "first", 5.0)
    second = OperationProgress("op", 10, 20, 30, 40, "second", 50.0)
    assert first.plus(second) == OperationProgress("op", 11, 22, 33, 44, "first", 5.0)
    assert OperationProgress("op").plus(second) == second


def test_what_corrects() -> None:
    """Only what takes back failures."""
    failures = (-1, 0, 1)
    assert [OperationProgress("op", failed=n).corrects for n in failures] == [True, False, False]


def test_what_ends_an_event() -> None:
    """The facts after which it is no longer in the document."""
    assert EVENT_ENDED == {FactType.CANCELLED, FactType.LAPSED, FactType.ENDED}
