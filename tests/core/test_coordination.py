"""Guards of those that plan over several scopes: what cannot be is an error of ours, said so."""

import pytest

from fairwarning.core import cascade, operation, rollout
from fairwarning.core.commands import CreateSet, Poll
from fairwarning.core.decision import OperationProgress
from fairwarning.core.errors import InvariantViolated, NotFound
from fairwarning.core.model import ImpactKind, Lane, Operation, OperationStatus, Rollout

ROLLOUT = Rollout(
    id="r", kind=ImpactKind.FREEZE, actor="a", started_at=0, batch=1, lanes=1, machines=1
)
LANE = Lane(id="r/0", rollout="r", number=0, steps=({"s": ("m",)},))


def test_a_command_for_somebody_else() -> None:
    """A rollout and a lane take the commands that are theirs and no other."""
    stray = Poll(scope="s")
    with pytest.raises(AssertionError):
        rollout.decide(ROLLOUT, stray, lambda _: None, 0)
    with pytest.raises(AssertionError):
        rollout.decide_lane(LANE, ROLLOUT, stray, lambda _: None, 0)
    with pytest.raises(NotFound):
        rollout.decide(None, stray, lambda _: None, 0)


def test_an_operation_ends_once() -> None:
    """What has ended takes no more progress; and what is over is not ended again (IC1)."""
    running = Operation(id="o", kind="Restart", actor="a", accepted_at=0, planned=3, done=1)
    half = operation.settle(running, OperationProgress("o", done=1), 5).entity
    assert isinstance(half, Operation)
    assert (half.done, half.status, half.ended_at) == (2, OperationStatus.RUNNING, None)
    over = operation.settle(half, OperationProgress("o", done=1), 6).entity
    assert isinstance(over, Operation)
    assert (over.done, over.status, over.ended_at) == (3, OperationStatus.SUCCEEDED, 6)
    with pytest.raises(InvariantViolated, match="OperationOver"):
        operation.settle(over, OperationProgress("o", done=1), 7)


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
    """One failure fails it; it is Canceled when nothing at all was done; else it has succeeded."""
    standing = Operation(
        id="o", kind="Restart", actor="a", accepted_at=0, planned=done + failed + cancelled
    )
    ended = operation.settle(
        standing, OperationProgress("o", done=done, failed=failed, cancelled=cancelled), 1
    ).entity
    assert isinstance(ended, Operation)
    assert ended.status is status


def test_a_cascade_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not is a bug, and stops the writer instead of hanging it."""
    monkeypatch.setattr(cascade, "_MESSAGES_AT_MOST", 2)
    with pytest.raises(InvariantViolated, match="Endless"):
        cascade.run(CreateSet(set="s", capacity=500), 0, lambda _: None)


def test_what_is_not_loaded_is_asked_for() -> None:
    """Deciding needs no store: it says what it misses, and is run again."""

    def get(ref: object) -> None:
        raise cascade.EntityNotLoaded(ref)  # type: ignore[arg-type]

    with pytest.raises(cascade.EntityNotLoaded) as missing:
        cascade.run(CreateSet(set="s", capacity=1), 0, get)
    assert missing.value.ref[1] == "s"
