"""Nothing is lost by a restart, and the time in between counts (E9)."""

from collections.abc import Callable

import pytest

from fairwarning.core.commands import (
    Degrade,
    Delete,
    Maintain,
    OperateInstances,
    PauseRollout,
    Restart,
    ResumeRollout,
    StartRollout,
)
from fairwarning.core.model import (
    EventStatus,
    ImpactKind,
    OperationStatus,
    RolloutStatus,
    Rules,
)
from fairwarning.store.memory import MemoryStore
from tests.contract.stage import (
    DAY,
    HOUR,
    MINUTE,
    approve,
    begun,
    hit,
    hits,
    only,
    operate,
    polled,
    set_of,
    shown,
    succeeded,
)
from tests.fixtures.fleet import NOON, FleetHarness

pytestmark = pytest.mark.spec("E9")

Prepare = Callable[[FleetHarness], None]


def _after_a_pause(prepare: Prepare, until: float) -> FleetHarness:
    """A fleet that was prepared at noon, stopped, and is started again so much later."""
    store = MemoryStore()
    with FleetHarness(store) as bed:
        prepare(bed)
    return FleetHarness(store, start=NOON + until)


def _reboot_planned(bed: FleetHarness) -> None:
    polled(bed, "vm")
    operate(bed, Restart, "vm", "vm")


def _reboot_under_way(bed: FleetHarness) -> None:
    _reboot_planned(bed)
    approve(bed, "vm")


def test_everything_is_there_again() -> None:
    """Scopes, events, operations, sets, rollouts and the journal are what they were."""
    with FleetHarness() as bed:
        set_of(bed, 3)
        bed.availability_set()
        bed.poll("av")
        bed.do(StartRollout(rollout="up", scopes=("av",)))
        bed.do(OperateInstances(set="web", operation="op", action=Delete, instances=(1,)))
        operate(bed, Restart, "av", "av1", name="restart")

        def everything() -> list[object]:
            return [
                bed.scope("av"),
                bed.scope("web/0"),
                bed.scale_set("web"),
                bed.rollout("up"),
                bed.operation("op"),
                bed.operation("restart"),
                bed.poll("av"),
                bed.poll("web/0"),
                bed.journal(),
                bed.clock.now(),
            ]

        before = everything()
        bed.restart()
        assert everything() == before


def test_a_document_does_not_go_backwards() -> None:
    """A machine that saw an incarnation before a restart never sees a lower one after it."""
    with FleetHarness() as bed:
        _reboot_planned(bed)
        seen = 0
        for _ in range(3):
            bed.restart()
            document = bed.poll("vm")
            assert document["DocumentIncarnation"] >= seen
            seen = document["DocumentIncarnation"]
            bed.advance(8 * MINUTE)
        assert seen == 4


def test_not_before_passed_while_down() -> None:
    """An event whose time came while the service was down starts as soon as it is up."""
    with _after_a_pause(_reboot_planned, HOUR) as bed:
        bed.advance(0)
        assert shown(bed, "vm") == {"vm": EventStatus.STARTED}
        assert begun(bed) == {"vm": HOUR}


def test_not_before_still_ahead_after_a_stop() -> None:
    """Down time is notice too: NotBefore stays where it was published."""
    with _after_a_pause(_reboot_planned, 10 * MINUTE) as bed:
        assert only(bed, "vm").not_before == NOON + 15 * MINUTE
        bed.advance(5 * MINUTE - 1)
        assert hits(bed) == []
        bed.advance(1)
        assert hit(bed) == ["vm"]


def test_the_day_of_silence_passed_while_down() -> None:
    """A scope that nobody asked for since yesterday is off when the service comes back."""
    with _after_a_pause(lambda bed: polled(bed, "vm"), DAY) as bed:
        bed.advance(0)
        assert not bed.scope("vm").enabled


@pytest.mark.parametrize("store_again", [False, True])
def test_an_impact_under_way_is_handed_over_again(store_again: bool) -> None:
    """What a driver was doing when we stopped it gets again, the same act under the same id."""
    with FleetHarness() as bed:
        _reboot_under_way(bed)
        (given,) = bed.driver.given
        bed.advance(30)
        for _ in range(2 if store_again else 1):
            bed.restart()
            assert bed.driver.given == [given]
        bed.advance(60)
        assert bed.events("vm") == []
        assert bed.operation("op").done == 1


def test_an_impact_that_is_over_is_not_handed_over_again() -> None:
    """A finished impact is not repeated."""
    with FleetHarness() as bed:
        _reboot_under_way(bed)
        bed.advance(60)
        bed.restart()
        assert bed.driver.given == []
        bed.advance(HOUR)
        assert succeeded(bed, "op")


def test_a_limit_that_passed_while_down() -> None:
    """An impact whose limit was reached while we were down has failed."""

    def prepare(bed: FleetHarness) -> None:
        bed.standalone(rules=Rules(impact_limit_seconds=120))
        bed.poll("vm")
        operate(bed, Restart, "vm", "vm")
        approve(bed, "vm")

    with _after_a_pause(prepare, HOUR) as bed:
        bed.advance(0)
        assert bed.operation("op").status is OperationStatus.FAILED
        assert bed.events("vm") == []


def test_a_rollout_goes_on_where_it_was() -> None:
    """Restarted at every turn, a rollout hits each machine once, in order."""
    hit_so_far: list[str] = []
    with FleetHarness() as bed:
        bed.availability_set()
        bed.poll("av")
        bed.do(StartRollout(rollout="up", scopes=("av",)))
        for _ in range(3):
            bed.restart()
            bed.advance(15 * MINUTE)
            hit_so_far += hit(bed)
            bed.advance(9)
        assert hit_so_far == ["av0", "av3", "av1", "av4", "av2", "av5"]
        assert bed.rollout("up").status is RolloutStatus.DONE


def test_a_deferred_step_and_a_pause_survive() -> None:
    """A step that waits for a busy machine, and a paused rollout, are still that."""
    with FleetHarness() as bed:
        polled(bed, "vm")
        operate(bed, Restart, "vm", "vm")
        bed.do(StartRollout(rollout="up", scopes=("vm",)))
        bed.restart()
        approve(bed, "vm")
        bed.do(PauseRollout(rollout="up"))
        bed.advance(2 * MINUTE)
        bed.restart()
        assert bed.rollout("up").status is RolloutStatus.PAUSED
        bed.do(ResumeRollout(rollout="up"))
        approve(bed, "vm")
        assert hits(bed) == [("vm", ImpactKind.FREEZE)]


def test_many_things_due_at_once() -> None:
    """However much came due while we were down, all of it happens at the start."""

    def prepare(bed: FleetHarness) -> None:
        bed.availability_set(machines=200, domains=20)
        bed.poll("av")
        for n in range(200):
            operate(bed, Maintain, "av", f"av{n}", name=f"op{n}")
        scopes = [f"vm{n}" for n in range(300)]
        polled(bed, *scopes)
        for scope in scopes:
            operate(bed, Degrade, scope, scope, name=scope)

    with _after_a_pause(prepare, HOUR) as bed:
        bed.advance(0)
        assert len(set(hit(bed))) == 500


def test_a_repeated_operation_after_a_restart() -> None:
    """Who repeats a command because the answer got lost gets it, and nothing happens twice."""
    with FleetHarness() as bed:
        _reboot_under_way(bed)
        bed.advance(60)
        bed.restart()
        again = bed.do(Restart(scope="vm", operation="op", machines=("vm",)))
        assert again is not None
        assert again.status is OperationStatus.SUCCEEDED
        assert bed.events("vm") == []
