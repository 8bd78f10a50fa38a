"""All time comes from one clock; a restart loses nothing, and time passes meanwhile (E9, E11)."""

import asyncio
from collections.abc import Callable

import pytest

from fairwarning.core.commands import Degrade, Maintain, Restart
from fairwarning.core.errors import Refused
from fairwarning.core.model import EventStatus
from fairwarning.machines.simulated import SimulatedDriver
from fairwarning.service.clock import RealClock
from fairwarning.service.fleet import Fleet
from fairwarning.store.memory import MemoryStore
from tests.contract.units import HOUR, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness
from tests.fixtures.waiting import wait_until_async

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


@pytest.mark.spec("E9")
def test_not_before_passed_while_down() -> None:
    """An event whose NotBefore passes while the service is down starts when it is up."""
    with _after_a_pause(_reboot_planned, HOUR) as harness:
        harness.advance(0)
        assert harness.statuses("vm") == {"vm": EventStatus.STARTED}
        assert harness.impact_times() == {"vm": HOUR}


@pytest.mark.spec("E9")
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


@pytest.mark.spec("E9")
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


@pytest.mark.spec("E11")
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


@pytest.mark.spec("E11")
@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 367 * 24 * 3600])
def test_invalid_advances_are_refused(harness: FleetHarness, seconds: float) -> None:
    """Time cannot be advanced backwards or infinitely."""
    with pytest.raises(Refused, match="BadAdvance"):
        harness.advance(seconds)
    assert harness.clock.now() == NOON


@pytest.mark.spec("E11")
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


@pytest.mark.spec("E11")
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
