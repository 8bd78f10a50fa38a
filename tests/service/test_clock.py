import asyncio
import time

import pytest

from fairwarning.core.errors import Refused
from fairwarning.service import clock as clock_module
from fairwarning.service.clock import RealClock, VirtualClock
from tests.fixtures.waiting import LIMIT_SECONDS, run_async

pytestmark = pytest.mark.spec("E11")

YEARS = 10 * 365 * 86_400.0


# --- Real time: the subject here, so these wait for it ------------------------------------------


@pytest.mark.parametrize("ahead", [0.0, 0.001, 0.03])
@run_async
async def test_real_alarms_are_never_early(ahead: float) -> None:
    """When an alarm rings, its moment has been reached."""
    clock, rang = RealClock(), asyncio.Event()
    moment = clock.now() + ahead
    clock.call_at(moment, rang.set)
    await rang.wait()
    assert clock.now() >= moment


@run_async
async def test_a_moment_that_has_passed_rings_soon() -> None:
    """An alarm for the past is rung, though not before its caller has gone on."""
    clock, rang = RealClock(), asyncio.Event()
    clock.call_at(clock.now() - 3600, rang.set)
    assert not rang.is_set()
    await asyncio.wait_for(rang.wait(), LIMIT_SECONDS)


@run_async
async def test_a_cancelled_real_alarm_stays_silent() -> None:
    """Nothing is called after a cancel."""
    clock, rang, later = RealClock(), asyncio.Event(), asyncio.Event()
    clock.call_at(clock.now() + 0.01, rang.set).cancel()
    clock.call_at(clock.now() + 0.03, later.set)
    await later.wait()
    assert not rang.is_set()


@pytest.mark.parametrize("step", [-YEARS, -1.0, 1.0, YEARS])
def test_a_stepped_wall_clock_moves_nothing(step: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is taken from the wall once; a later step of the wall clock cannot eat notice (IL4)."""
    clock = RealClock()
    before, wall = clock.now(), time.time()
    assert abs(before - wall) < 60
    monkeypatch.setattr(time, "time", lambda: wall + step)
    assert 0 <= clock.now() - before < 60


@run_async
async def test_a_loop_that_wakes_too_early_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the loop's clock runs ahead of ours, the alarm waits until ours has come as far."""
    started = time.monotonic()
    slow = lambda: started + (time.monotonic() - started) / 3  # noqa: E731
    monkeypatch.setattr(clock_module, "_steady", slow)
    clock, rang = RealClock(), asyncio.Event()
    moment = clock.now() + 0.02
    clock.call_at(moment, rang.set)
    await rang.wait()
    assert clock.now() >= moment
    assert time.monotonic() - started >= 0.06


def test_real_time_does_not_run_backwards() -> None:
    """Two looks at the clock are in order, always."""
    clock = RealClock()
    seen = [clock.now() for _ in range(1000)]
    assert seen == sorted(seen)


def test_where_the_system_does_not_count_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a clock that counts while the machine sleeps, the next best is taken."""
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    clock = RealClock()
    assert abs(clock.now() - time.time()) < 60


def test_real_time_needs_no_memory() -> None:
    """The world keeps real time; a restart has nothing to take up."""
    clock = RealClock()
    before = clock.now()
    assert clock.state() == ""
    clock.restore('{"now": 0, "rate": 5}')
    assert clock.now() >= before


# --- Virtual time, frozen -----------------------------------------------------------------------


@run_async
async def test_alarms_ring_in_order_each_at_its_moment() -> None:
    """Advancing stops at every alarm on the way; those of one moment ring as they were set."""
    clock, rang = VirtualClock(100), list[tuple[str, float]]()
    for name, moment in (("c", 130), ("a", 110), ("b", 120), ("a too", 110), ("far", 140)):
        clock.call_at(moment, lambda name=name: rang.append((name, clock.now())))  # type: ignore[misc]
    assert clock.now() == 100
    await clock.advance(30)
    assert rang == [("a", 110), ("a too", 110), ("b", 120), ("c", 130)]
    assert clock.now() == 130


@run_async
async def test_an_alarm_set_by_an_alarm() -> None:
    """What comes due within the time advanced rings, also if it was set on the way."""
    clock, rang = VirtualClock(), list[float]()

    def again() -> None:
        rang.append(clock.now())
        clock.call_at(clock.now() + 10, again)

    clock.call_at(10, again)
    await clock.advance(35)
    assert rang == [10, 20, 30]
    assert clock.now() == 35


@run_async
async def test_an_alarm_for_the_past_does_not_turn_time_back() -> None:
    """It rings at the next advance, and time stays where it is."""
    clock, rang = VirtualClock(100), list[float]()
    clock.call_at(50, lambda: rang.append(clock.now()))
    await clock.advance(0)
    assert rang == [100]


@run_async
async def test_a_cancelled_virtual_alarm_stays_silent() -> None:
    """Also if it is cancelled by an alarm of the same moment."""
    clock, rang = VirtualClock(), list[str]()
    second = clock.call_at(10, lambda: rang.append("second"))
    clock.call_at(5, second.cancel)
    clock.call_at(10, lambda: rang.append("third"))
    await clock.advance(20)
    assert rang == ["third"]


@run_async
async def test_what_an_alarm_causes_is_waited_for() -> None:
    """Between two alarms `settled` is awaited, so that effects come in the order of time."""
    clock, log = VirtualClock(), list[str]()

    async def settled() -> None:
        await asyncio.sleep(0)
        log.append(f"settled at {clock.now():g}")

    clock.settled = settled
    clock.call_at(1, lambda: log.append("one"))
    clock.call_at(2, lambda: log.append("two"))
    await clock.advance(3)
    assert log == ["settled at 0", "one", "settled at 1", "two", "settled at 2"]


@pytest.mark.parametrize("seconds", [-0.1, float("nan"), float("inf"), 1e12])
@run_async
async def test_bad_advances_are_refused(seconds: float) -> None:
    """Time goes forwards, by a year at most."""
    clock = VirtualClock(5)
    with pytest.raises(Refused, match="BadAdvance"):
        await clock.advance(seconds)
    assert clock.now() == 5


# --- Virtual time, running ----------------------------------------------------------------------


@run_async
async def test_running_at_a_multiple() -> None:
    """Time runs so many times as fast as real time, and alarms ring by it, never early."""
    clock, rang = VirtualClock(1000), asyncio.Event()
    moment = 1000 + 3600
    clock.call_at(moment, rang.set)
    clock.run(100_000)
    assert clock.rate == 100_000
    await rang.wait()
    assert clock.now() >= moment
    clock.freeze()
    frozen = clock.now()
    await asyncio.sleep(0.01)
    assert (clock.now(), clock.rate) == (frozen, 0)


@run_async
async def test_an_alarm_set_while_time_runs() -> None:
    """It rings by running time like one that was there before, and before a later one."""
    clock, rang, log = VirtualClock(), asyncio.Event(), list[str]()
    clock.run(10_000)
    clock.call_at(clock.now() + 400, rang.set)
    clock.call_at(clock.now() + 100, lambda: log.append("first"))
    await rang.wait()
    clock.freeze()
    assert log == ["first"]


@run_async
async def test_advancing_while_time_runs() -> None:
    """An alarm that an advance brought near rings soon, not at the time it once had ahead."""
    clock, rang = VirtualClock(), asyncio.Event()
    clock.run(1)
    clock.call_at(1000, rang.set)
    await clock.advance(999.9)
    await asyncio.wait_for(rang.wait(), LIMIT_SECONDS)
    clock.freeze()
    assert clock.now() >= 1000


@pytest.mark.parametrize("rate", [-1, float("nan"), float("inf"), 1e7])
def test_bad_rates_are_refused(rate: float) -> None:
    """From frozen to a million times real time."""
    clock = VirtualClock()
    with pytest.raises(Refused, match="BadRate"):
        clock.run(rate)
    assert clock.rate == 0


# --- Virtual time over a restart ----------------------------------------------------------------


@run_async
async def test_restored_where_it_stood() -> None:
    """A new clock goes on from the state of the old one, frozen or running."""
    old = VirtualClock(100)
    await old.advance(50)
    new = VirtualClock(0)
    new.restore(old.state())
    assert (new.now(), new.rate) == (150, 0)
    old.run(1000)
    new.restore(old.state())
    assert new.rate == 1000
    assert new.now() >= 150
    rang = asyncio.Event()
    new.call_at(new.now() + 20, rang.set)
    await rang.wait()
    new.freeze()
    old.freeze()


def test_restoring_does_not_turn_time_back() -> None:
    """Started later than it stopped, it begins at the later moment."""
    clock = VirtualClock(1_000)
    clock.restore(VirtualClock(10).state())
    assert clock.now() == 1_000
