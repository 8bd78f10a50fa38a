"""A restart loses nothing, and time passes while the service is down (E9)."""

from collections.abc import Callable

import pytest

from fairwarning.core.commands import Degrade, Maintain, Restart, StartRollout
from fairwarning.core.model import EventStatus, RolloutStatus
from fairwarning.store.memory import MemoryStore
from tests.contract.units import DAY, HOUR, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

pytestmark = pytest.mark.spec("E9")

Prepare = Callable[[FleetHarness], None]


def _after_a_pause(prepare: Prepare, until: float) -> FleetHarness:
    """Prepare a fleet at noon, stop it, and start it again at a later time."""
    store = MemoryStore()
    with FleetHarness(store) as harness:
        prepare(harness)
    return FleetHarness(store, start=NOON + until)


def _reboot_planned(harness: FleetHarness) -> None:
    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm")


def _reboot_under_way(harness: FleetHarness) -> None:
    _reboot_planned(harness)
    harness.approve("vm")


def test_not_before_passed_while_down() -> None:
    """An event whose NotBefore passes while the service is down starts when it is up."""
    with _after_a_pause(_reboot_planned, HOUR) as harness:
        harness.advance(0)
        assert harness.statuses("vm") == {"vm": EventStatus.STARTED}
        assert harness.impact_times() == {"vm": HOUR}


def test_not_before_still_ahead_after_a_stop() -> None:
    """Down time counts as notice: NotBefore does not change."""
    with _after_a_pause(_reboot_planned, 10 * MINUTE) as harness:
        assert harness.only_event("vm").not_before == NOON + 15 * MINUTE
        harness.advance(5 * MINUTE - 1)
        assert harness.impacts() == []
        harness.advance(1)
        assert harness.impacted() == ["vm"]


def test_the_idle_limit_passed_while_down() -> None:
    """A scope without polls for a day is disabled when the service starts."""
    with _after_a_pause(lambda harness: harness.make_enabled("vm"), DAY) as harness:
        harness.advance(0)
        assert not harness.scope("vm").enabled


@pytest.mark.parametrize("store_again", [False, True])
def test_a_running_impact_is_dispatched_again(harness: FleetHarness, store_again: bool) -> None:
    """The driver gets a running impact again after a restart, with the same id."""
    _reboot_under_way(harness)
    (impact,) = harness.driver.impacts
    harness.advance(30)
    for _ in range(2 if store_again else 1):
        harness.restart()
        assert harness.driver.impacts == [impact]
    harness.advance(60)
    assert harness.events("vm") == []
    assert harness.operation("op").done == 1


def test_a_finished_impact_is_not_dispatched_again(harness: FleetHarness) -> None:
    """A finished impact is not repeated."""
    _reboot_under_way(harness)
    harness.advance(60)
    harness.restart()
    assert harness.driver.impacts == []
    harness.advance(HOUR)
    assert harness.succeeded("op")


def test_a_rollout_continues_after_restarts(harness: FleetHarness) -> None:
    """With a restart at every step, a rollout affects each machine once, in order."""
    hit_so_far: list[str] = []
    harness.availability_set()
    harness.poll("av")
    harness.do(StartRollout(rollout="up", scopes=("av",)))
    for _ in range(3):
        harness.restart()
        harness.advance(15 * MINUTE)
        hit_so_far += harness.impacted()
        harness.advance(9)
    assert hit_so_far == ["av0", "av3", "av1", "av4", "av2", "av5"]
    assert harness.rollout("up").status is RolloutStatus.DONE


def test_much_work_due_at_the_start() -> None:
    """All work that came due while the service was down is done at the start."""

    def prepare(harness: FleetHarness) -> None:
        harness.availability_set(machines=200, domains=1)
        harness.poll("av")
        for n in range(200):
            harness.operate(Maintain, "av", f"av{n}", name=f"op{n}")
        scopes = [f"vm{n}" for n in range(300)]
        harness.make_enabled(*scopes)
        for scope in scopes:
            harness.operate(Degrade, scope, scope, name=scope)

    with _after_a_pause(prepare, HOUR) as harness:
        harness.advance(0)
        assert len(set(harness.impacted())) == 500
