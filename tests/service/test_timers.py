import pytest

from fairwarning.service.clock import VirtualClock
from fairwarning.service.timers import Timers
from tests.fixtures.fleet import NOON
from tests.fixtures.waiting import run_async

pytestmark = pytest.mark.spec("E2")


def _timers() -> tuple[Timers, VirtualClock, list[float]]:
    clock, woken = VirtualClock(NOON), list[float]()
    return Timers(clock, lambda: woken.append(clock.now())), clock, woken


@run_async
async def test_the_timer_wakes_at_its_time() -> None:
    """The timer wakes once, at its time, and `due` is set."""
    timers, clock, woken = _timers()
    timers.arm(NOON + 10)
    await clock.advance(9)
    assert not timers.due
    await clock.advance(11)
    assert woken == [NOON + 10]
    assert timers.due


@run_async
async def test_a_past_due_time_wakes_at_once() -> None:
    """A due time in the past or present wakes at once."""
    for moment in (NOON - 5, NOON):
        timers, _, woken = _timers()
        timers.arm(moment)
        assert woken == [NOON]
        assert timers.due


@run_async
async def test_the_last_due_time_counts() -> None:
    """There is a single alarm, for the due time that was set last."""
    timers, clock, woken = _timers()
    for moment in (NOON + 10, NOON + 5, NOON + 20, NOON + 20):
        timers.arm(moment)
    await clock.advance(60)
    assert woken == [NOON + 20]


@pytest.mark.parametrize("how", ["none", "disarmed"])
@run_async
async def test_nothing_is_due(how: str) -> None:
    """Without a due time, or disarmed, the timer does not wake."""
    timers, clock, woken = _timers()
    timers.arm(NOON + 10)
    if how == "none":
        timers.arm(None)
    else:
        timers.disarm()
    await clock.advance(60)
    assert woken == []
    timers.arm(NOON + 100)
    await clock.advance(60)
    assert woken == [NOON + 100]
