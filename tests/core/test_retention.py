"""Retention drops what has ended, and only that; a dropped id can be used again (IR1, IC2)."""

import pytest

from fairwarning.core.commands import (
    AbortRollout,
    Deallocate,
    DropLane,
    DropOperation,
    DropRollout,
    Restart,
    RetryLane,
    StartRollout,
)
from fairwarning.core.decision import FactType
from fairwarning.core.model import ImpactKind, Lane, Operation, Rollout, RolloutStatus
from tests.fixtures.fleet import NOON, FleetHarness, all_entities

DAY_SECONDS = 24 * 3600.0


def stored(harness: FleetHarness, kind: type[Operation | Rollout | Lane]) -> list[str]:
    """Return the ids of the stored entities of a kind."""
    entities = harness.run(all_entities(harness.store))
    return [name for known, name in entities if known is kind]


def test_an_operation_in_progress_is_never_dropped(harness: FleetHarness) -> None:
    """However old it is."""
    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm")
    error = harness.refusal(DropOperation(operation="op", before=NOON + DAY_SECONDS))
    assert (error.code, stored(harness, Operation)) == ("NotEnded", ["op"])


def test_an_operation_is_dropped_once_it_has_ended_before_that_time(harness: FleetHarness) -> None:
    """Not at that time: the age must exceed the retention period."""
    harness.standalone("vm")
    harness.operate(Deallocate, "vm", "vm")
    harness.advance(60)
    ended_at = harness.operation("op").ended_at
    assert ended_at is not None
    assert harness.refusal(DropOperation(operation="op", before=ended_at)).code == "NotEnded"
    lines = harness.journal()
    harness.do(DropOperation(operation="op", before=ended_at + 1))
    assert stored(harness, Operation) == []
    assert harness.journal() == lines
    again = harness.refusal(DropOperation(operation="op", before=ended_at + 1))
    assert again.code == "NothingToDrop"


def test_the_id_of_a_dropped_operation_can_be_used_again(harness: FleetHarness) -> None:
    """The repeat is a new operation, with a new event and a new impact (ID3)."""
    harness.make_enabled("vm")
    events = []
    for _ in range(2):
        harness.operate(Restart, "vm", "vm")
        events.append(harness.only_event("vm").id)
        harness.approve("vm")
        harness.advance(100)
        harness.do(DropOperation(operation="op", before=harness.clock.now()))
    assert len(set(events)) == len({impact.id for impact in harness.driver.impacts}) == 2


def aborted_rollout(harness: FleetHarness) -> None:
    """Abort a rollout over three machines after its first lane; two lanes never start."""
    for name in ("a", "b", "c"):
        harness.standalone(name)
    harness.driver.failing = {"a": "broken"}
    harness.do(
        StartRollout(
            rollout="r", scopes=("a", "b", "c"), kind=ImpactKind.REBOOT, batch=1, halt_percent=0
        )
    )
    harness.advance(60)
    assert harness.rollout("r").status is RolloutStatus.PAUSED
    harness.do(AbortRollout(rollout="r"))


@pytest.mark.spec("E7")
def test_an_abort_ends_a_paused_rollout(harness: FleetHarness) -> None:
    """It ends at once, as no lane is at work; machines of lanes that never started do not count."""
    aborted_rollout(harness)
    rollout = harness.rollout("r")
    assert (rollout.status, rollout.ended_at) == (RolloutStatus.ABORTED, NOON + 60)
    assert (rollout.done, rollout.failed, rollout.skipped) == (0, 1, 0)
    assert harness.facts(FactType.ROLLOUT_ENDED) == [FactType.ROLLOUT_ENDED]


def test_a_rollout_is_dropped_with_its_operations_and_lanes(harness: FleetHarness) -> None:
    """Its name can then be used again."""
    aborted_rollout(harness)
    assert stored(harness, Lane) == ["r/1", "r/2"]
    early, late = NOON + 60, NOON + 61
    for lane in ("r/1", "r/2"):
        assert harness.refusal(DropLane(lane=lane, before=early)).code == "NotEnded"
    harness.do(DropLane(lane="r/1", before=late))
    harness.do(DropOperation(operation="r/0/0", before=late))
    assert harness.refusal(DropRollout(rollout="r", before=early)).code == "NotEnded"
    harness.do(DropRollout(rollout="r", before=late))
    for lane in ("r/1", "r/2"):  # the one is dropped, the other has no rollout any more
        assert harness.refusal(RetryLane(lane=lane)).code == "UnknownLane"
    harness.do(DropLane(lane="r/2", before=late))
    assert [*stored(harness, Lane), *stored(harness, Rollout)] == []
    harness.driver.failing = {}
    harness.do(StartRollout(rollout="r", scopes=("a",), kind=ImpactKind.REBOOT))
    harness.advance(60)
    assert harness.rollout("r").status is RolloutStatus.DONE
