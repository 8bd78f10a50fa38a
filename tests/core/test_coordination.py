"""Operations and rollouts over several scopes: how they end; impossible input is a reported bug."""

import pytest

from fairwarning.core import cascade, operation
from fairwarning.core.commands import CreateSet
from fairwarning.core.decision import EVENT_ENDED, FactType, OperationProgress
from fairwarning.core.errors import Bug
from fairwarning.core.model import Operation, OperationStatus


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
