"""All time comes from one clock, which can be virtual (E11)."""

import asyncio

import pytest

from fairwarning.core.commands import Restart
from fairwarning.core.errors import Refused
from fairwarning.machines.simulated import SimulatedDriver
from fairwarning.service.clock import RealClock
from fairwarning.service.fleet import Fleet
from fairwarning.store.memory import MemoryStore
from tests.contract.units import MINUTE
from tests.fixtures.fleet import NOON, FleetHarness
from tests.fixtures.waiting import wait_until_async

pytestmark = pytest.mark.spec("E11")


@pytest.mark.parametrize("step", [1, 7, 60, 3600])
def test_the_size_of_advances_does_not_matter(harness: FleetHarness, step: int) -> None:
    """Advancing in one step or in many gives the same times."""
    harness.availability_set(machines=2, domains=2)
    harness.poll("av")
    harness.operate(Restart, "av", "av0", name="first")
    harness.advance(10.5)
    harness.operate(Restart, "av", "av1", name="second")
    while harness.clock.now() < NOON + 1200:
        harness.advance(step)
    assert harness.impact_times() == {"av0": 900, "av1": 911}
    assert harness.operation("first").ended_at == NOON + 960
    assert harness.operation("second").ended_at == NOON + 971


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 367 * 24 * 3600])
def test_invalid_advances_are_refused(harness: FleetHarness, seconds: float) -> None:
    """Time cannot be advanced backwards or infinitely."""
    with pytest.raises(Refused, match="BadAdvance"):
        harness.advance(seconds)
    assert harness.clock.now() == NOON


def test_running_at_a_multiple(harness: FleetHarness) -> None:
    """At 10,000 times real time a fifteen-minute notice is over within a real second."""

    async def run(harness: FleetHarness) -> None:
        await harness.fleet.run_clock(10_000)
        await wait_until_async(lambda: bool(harness.driver.impacts))
        await harness.fleet.run_clock(0)

    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm")
    harness.run(run(harness))
    frozen = harness.clock.now()
    assert harness.impact_times()["vm"] >= 15 * MINUTE
    assert frozen == harness.clock.now()


def test_a_fleet_in_real_time_cannot_be_advanced() -> None:
    """Real time cannot be advanced."""

    async def run() -> None:
        driver = SimulatedDriver(lambda _, call: call())
        fleet = Fleet(MemoryStore(), RealClock(), driver)
        await fleet.start()
        with pytest.raises(Refused, match="RealTime"):
            await fleet.advance(1)
        with pytest.raises(Refused, match="RealTime"):
            await fleet.run_clock(2)
        await fleet.stop()

    asyncio.run(run())
