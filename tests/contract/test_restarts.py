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
from tests.contract.shortcuts import (
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
    with FleetHarness(store) as harness:
        prepare(harness)
    return FleetHarness(store, start=NOON + until)


def _reboot_planned(harness: FleetHarness) -> None:
    polled(harness, "vm")
    operate(harness, Restart, "vm", "vm")


def _reboot_under_way(harness: FleetHarness) -> None:
    _reboot_planned(harness)
    approve(harness, "vm")


def test_everything_is_there_again() -> None:
    """Scopes, events, operations, sets, rollouts and the journal are what they were."""
    with FleetHarness() as harness:
        set_of(harness, 3)
        harness.availability_set()
        harness.poll("av")
        harness.do(StartRollout(rollout="up", scopes=("av",)))
        harness.do(OperateInstances(set="web", operation="op", action=Delete, instances=(1,)))
        operate(harness, Restart, "av", "av1", name="restart")

        def everything() -> list[object]:
            return [
                harness.scope("av"),
                harness.scope("web/0"),
                harness.scale_set("web"),
                harness.rollout("up"),
                harness.operation("op"),
                harness.operation("restart"),
                harness.poll("av"),
                harness.poll("web/0"),
                harness.journal(),
                harness.clock.now(),
            ]

        before = everything()
        harness.restart()
        assert everything() == before


def test_a_document_does_not_go_backwards() -> None:
    """A machine that saw an incarnation before a restart never sees a lower one after it."""
    with FleetHarness() as harness:
        _reboot_planned(harness)
        seen = 0
        for _ in range(3):
            harness.restart()
            document = harness.poll("vm")
            assert document["DocumentIncarnation"] >= seen
            seen = document["DocumentIncarnation"]
            harness.advance(8 * MINUTE)
        assert seen == 4


def test_not_before_passed_while_down() -> None:
    """An event whose time came while the service was down starts as soon as it is up."""
    with _after_a_pause(_reboot_planned, HOUR) as harness:
        harness.advance(0)
        assert shown(harness, "vm") == {"vm": EventStatus.STARTED}
        assert begun(harness) == {"vm": HOUR}


def test_not_before_still_ahead_after_a_stop() -> None:
    """Down time is notice too: NotBefore stays where it was published."""
    with _after_a_pause(_reboot_planned, 10 * MINUTE) as harness:
        assert only(harness, "vm").not_before == NOON + 15 * MINUTE
        harness.advance(5 * MINUTE - 1)
        assert hits(harness) == []
        harness.advance(1)
        assert hit(harness) == ["vm"]


def test_the_day_of_silence_passed_while_down() -> None:
    """A scope that nobody asked for since yesterday is off when the service comes back."""
    with _after_a_pause(lambda harness: polled(harness, "vm"), DAY) as harness:
        harness.advance(0)
        assert not harness.scope("vm").enabled


@pytest.mark.parametrize("store_again", [False, True])
def test_an_impact_under_way_is_handed_over_again(store_again: bool) -> None:
    """What a driver was doing when we stopped it gets again, the same act under the same id."""
    with FleetHarness() as harness:
        _reboot_under_way(harness)
        (given,) = harness.driver.given
        harness.advance(30)
        for _ in range(2 if store_again else 1):
            harness.restart()
            assert harness.driver.given == [given]
        harness.advance(60)
        assert harness.events("vm") == []
        assert harness.operation("op").done == 1


def test_an_impact_that_is_over_is_not_handed_over_again() -> None:
    """A finished impact is not repeated."""
    with FleetHarness() as harness:
        _reboot_under_way(harness)
        harness.advance(60)
        harness.restart()
        assert harness.driver.given == []
        harness.advance(HOUR)
        assert succeeded(harness, "op")


def test_a_limit_that_passed_while_down() -> None:
    """An impact whose limit was reached while we were down has failed."""

    def prepare(harness: FleetHarness) -> None:
        harness.standalone(rules=Rules(impact_limit_seconds=120))
        harness.poll("vm")
        operate(harness, Restart, "vm", "vm")
        approve(harness, "vm")

    with _after_a_pause(prepare, HOUR) as harness:
        harness.advance(0)
        assert harness.operation("op").status is OperationStatus.FAILED
        assert harness.events("vm") == []


def test_a_rollout_goes_on_where_it_was() -> None:
    """Restarted at every turn, a rollout hits each machine once, in order."""
    hit_so_far: list[str] = []
    with FleetHarness() as harness:
        harness.availability_set()
        harness.poll("av")
        harness.do(StartRollout(rollout="up", scopes=("av",)))
        for _ in range(3):
            harness.restart()
            harness.advance(15 * MINUTE)
            hit_so_far += hit(harness)
            harness.advance(9)
        assert hit_so_far == ["av0", "av3", "av1", "av4", "av2", "av5"]
        assert harness.rollout("up").status is RolloutStatus.DONE


def test_a_deferred_step_and_a_pause_survive() -> None:
    """A step that waits for a busy machine, and a paused rollout, are still that."""
    with FleetHarness() as harness:
        polled(harness, "vm")
        operate(harness, Restart, "vm", "vm")
        harness.do(StartRollout(rollout="up", scopes=("vm",)))
        harness.restart()
        approve(harness, "vm")
        harness.do(PauseRollout(rollout="up"))
        harness.advance(2 * MINUTE)
        harness.restart()
        assert harness.rollout("up").status is RolloutStatus.PAUSED
        harness.do(ResumeRollout(rollout="up"))
        approve(harness, "vm")
        assert hits(harness) == [("vm", ImpactKind.FREEZE)]


def test_many_things_due_at_once() -> None:
    """However much came due while we were down, all of it happens at the start."""

    def prepare(harness: FleetHarness) -> None:
        harness.availability_set(machines=200, domains=20)
        harness.poll("av")
        for n in range(200):
            operate(harness, Maintain, "av", f"av{n}", name=f"op{n}")
        scopes = [f"vm{n}" for n in range(300)]
        polled(harness, *scopes)
        for scope in scopes:
            operate(harness, Degrade, scope, scope, name=scope)

    with _after_a_pause(prepare, HOUR) as harness:
        harness.advance(0)
        assert len(set(hit(harness))) == 500


def test_a_repeated_operation_after_a_restart() -> None:
    """Who repeats a command because the answer got lost gets it, and nothing happens twice."""
    with FleetHarness() as harness:
        _reboot_under_way(harness)
        harness.advance(60)
        harness.restart()
        again = harness.do(Restart(scope="vm", operation="op", machines=("vm",)))
        assert again is not None
        assert again.status is OperationStatus.SUCCEEDED
        assert harness.events("vm") == []
