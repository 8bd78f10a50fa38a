import asyncio
import time
from unittest.mock import AsyncMock

import pytest

from fairwarning.core.errors import Refused
from fairwarning.service.clock import RealClock, VirtualClock
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.service.host_clocks import SteppedClocks

pytestmark = pytest.mark.spec("E11")


# --- Real time: these tests wait for it ----------------------------------------------------------


@pytest.mark.parametrize("ahead", [-3600.0, 0.0, 0.001, 0.03])
async def test_real_alarms_are_never_early(ahead: float) -> None:
    """An alarm never fires before its time, nor before `call_at` returns."""
    clock, fired = RealClock(), asyncio.Event()
    moment = clock.now() + ahead
    clock.call_at(moment, fired.set)
    assert not fired.is_set()
    await asyncio.wait_for(fired.wait(), LIMIT_SECONDS)
    assert clock.now() >= moment


async def test_a_cancelled_real_alarm_does_not_fire() -> None:
    """A cancelled alarm is not called."""
    clock, fired, later = RealClock(), asyncio.Event(), asyncio.Event()
    clock.call_at(clock.now() + 0.01, fired.set).cancel()
    clock.call_at(clock.now() + 0.03, later.set)
    await later.wait()
    assert not fired.is_set()


async def test_an_alarm_waits_if_the_loop_wakes_early() -> None:
    """If the event loop's clock runs fast, the alarm waits for the real clock."""
    started = time.monotonic()
    clocks = SteppedClocks()
    clocks.monotonic = lambda: (time.monotonic() - started) / 3  # type: ignore[method-assign]
    clock, fired = RealClock(clocks), asyncio.Event()
    moment = clock.now() + 0.02
    clock.call_at(moment, fired.set)
    await fired.wait()
    assert clock.now() >= moment
    assert time.monotonic() - started >= 0.06


async def test_a_suspended_host_delays_an_alarm_by_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The event loop does not see suspended time, so an alarm is checked every few seconds."""
    waits: list[float] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda wait, _: waits.append(wait))
    clock = RealClock()
    clock.call_at(clock.now() + 900, lambda: None)
    virtual = VirtualClock()
    virtual.run(1)
    virtual.call_at(900, lambda: None)
    assert len(waits) == 2
    assert max(waits) < 5


# --- Virtual time, frozen -----------------------------------------------------------------------


async def test_alarms_fire_in_order_each_at_its_time() -> None:
    """Advancing stops at each alarm; alarms of the same time fire in the order they were set."""
    clock, fired = VirtualClock(100), list[tuple[str, float]]()
    for name, moment in (("c", 130), ("a", 110), ("b", 120), ("a too", 110), ("far", 140)):
        clock.call_at(moment, lambda name=name: fired.append((name, clock.now())))  # type: ignore[misc]
    assert clock.now() == 100
    await clock.advance(30)
    assert fired == [("a", 110), ("a too", 110), ("b", 120), ("c", 130)]
    assert clock.now() == 130


async def test_an_alarm_set_by_an_alarm() -> None:
    """An alarm that is set during an advance fires if its time is within the advance."""
    clock, fired = VirtualClock(), list[float]()

    def repeat() -> None:
        fired.append(clock.now())
        clock.call_at(clock.now() + 10, repeat)

    clock.call_at(10, repeat)
    await clock.advance(35)
    assert fired == [10, 20, 30]
    assert clock.now() == 35


async def test_an_alarm_for_the_past_does_not_turn_time_back() -> None:
    """It fires at the next advance, and time does not move."""
    clock, fired = VirtualClock(100), list[float]()
    clock.call_at(50, lambda: fired.append(clock.now()))
    await clock.advance(0)
    assert fired == [100]


async def test_a_cancelled_virtual_alarm_does_not_fire() -> None:
    """A cancelled alarm does not fire, even if another alarm cancels it, and costs nothing."""
    clock, fired = VirtualClock(), list[str]()
    second = clock.call_at(10, lambda: fired.append("second"))
    clock.call_at(5, second.cancel)
    clock.call_at(10, lambda: fired.append("third"))
    for _ in range(10_000):
        clock.call_at(15, lambda: fired.append("fourth")).cancel()
    assert len(clock._alarms) < 100
    settled = AsyncMock()
    clock.settled = settled
    await clock.advance(20)
    assert fired == ["third"]
    assert settled.await_count == 3  # at first, and after the alarms at 5 and 10


# --- Virtual time, running ----------------------------------------------------------------------


async def test_an_alarm_set_while_time_runs() -> None:
    """Alarms set while time runs fire by that time and in order."""
    clock, fired, log = VirtualClock(), asyncio.Event(), list[str]()
    clock.run(10_000)
    clock.call_at(clock.now() + 400, fired.set)
    clock.call_at(clock.now() + 100, lambda: log.append("first"))
    await fired.wait()
    clock.run(0)
    assert log == ["first"]


async def test_an_alarm_that_fails_while_time_runs() -> None:
    """The next one fires nevertheless."""
    clock, fired = VirtualClock(), asyncio.Event()
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    clock.call_at(100, [].pop)
    clock.call_at(200, fired.set)
    clock.run(10_000)
    await asyncio.wait_for(fired.wait(), LIMIT_SECONDS)
    clock.run(0)
    assert len(errors) == 1


async def test_an_alarm_that_fails_while_time_is_advanced() -> None:
    """The advance fails, and a later one fires the alarms that are left, each at its time."""
    clock, fired = VirtualClock(), list[float]()
    clock.call_at(100, [].pop)
    clock.call_at(200, lambda: fired.append(clock.now()))
    with pytest.raises(IndexError):
        await clock.advance(300)
    await clock.advance(200)
    assert (fired, clock.now()) == ([200], 300)


async def test_advancing_while_time_runs() -> None:
    """After an advance, a running clock's alarm fires after the remaining time only."""
    clock, fired = VirtualClock(), asyncio.Event()
    clock.run(1)
    clock.call_at(1000, fired.set)
    await clock.advance(999.9)
    await asyncio.wait_for(fired.wait(), LIMIT_SECONDS)
    clock.run(0)
    assert clock.now() >= 1000


@pytest.mark.parametrize("rate", [-1, float("nan"), float("inf"), 1e7])
def test_bad_rates_are_refused(rate: float) -> None:
    """The rate is 0 (frozen) to a million times real time."""
    clock = VirtualClock()
    with pytest.raises(Refused, match="BadRate"):
        clock.run(rate)
    assert clock.rate == 0


# --- Virtual time over a restart ----------------------------------------------------------------


async def test_a_restored_clock_continues() -> None:
    """A new clock continues from the state of the old one, frozen or running."""
    old = VirtualClock(100)
    await old.advance(50)
    new = VirtualClock(0)
    new.restore(old.state(), 0.0)
    assert (new.now(), new.rate) == (150, 0)
    old.run(1000)
    new.restore(old.state(), 0.0)
    assert new.rate == 1000
    assert new.now() >= 150
    fired = asyncio.Event()
    new.call_at(new.now() + 20, fired.set)
    await fired.wait()
    new.run(0)
    old.run(0)


def test_restoring_does_not_turn_time_back() -> None:
    """A clock that starts after the saved time keeps its own time."""
    clock = VirtualClock(1_000)
    clock.restore(VirtualClock(10).state(), 0.0)
    assert clock.now() == 1_000


def test_virtual_time_ignores_the_state_of_a_real_clock() -> None:
    """A data folder may have been used with the real clock before."""
    clock = VirtualClock(1_000)
    clock.restore(RealClock().state(), 5_000.0)
    assert (clock.now(), clock.rate) == (1_000, 0)
