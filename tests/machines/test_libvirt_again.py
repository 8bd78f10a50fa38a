"""An impact is executed on a domain once, by whichever driver and however often (IL5)."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TypeVar

import pytest

from fairwarning.core.commands import Approve
from fairwarning.machines.libvirt.claim import DomainClaim
from fairwarning.machines.libvirt.driver import LibvirtDriver
from fairwarning.machines.libvirt.record import DomainRecord
from fairwarning.service.clock import RealClock
from fairwarning.service.fleet import Fleet
from fairwarning.store.memory import MemoryStore
from tests.fixtures.fleet import restart, standalone
from tests.fixtures.requirements import needs_libvirt
from tests.fixtures.waiting import wait_until_async
from tests.machines.libvirt_harness import (
    Hypervisor,
    LibvirtHarness,
    impact,
    libvirt_harness,
    open_hypervisor,
    with_driver,
)

pytestmark = needs_libvirt

T = TypeVar("T")

KINDS = {
    "reboot": "stopped started",
    "redeploy": "stopped started",
    "freeze": "suspended resumed",
    "stop": "stopped",
    "evict": "stopped",
    "delete": "stopped undefined",
}


class Stall:
    """Blocks a driver at one of its calls, as if its process had been suspended there."""

    def __init__(self, driver: LibvirtDriver, at: int = 0) -> None:
        (host,) = driver._options.hosts
        self.calls = 0
        self.reached = asyncio.Event()
        self.resume = asyncio.Event()
        call = host.call

        async def stalled(connection: object, function: Callable[[], T]) -> T:
            self.calls += 1
            if self.calls == at:
                self.reached.set()
                await self.resume.wait()
            return await call(connection, function)

        host.call = stalled  # type: ignore[method-assign]


@pytest.mark.spec("E9")
@pytest.mark.parametrize("kind", KINDS)
async def test_an_executed_impact_is_not_repeated(kind: str) -> None:
    """Not by this driver, a later one, after other impacts, or concurrently."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness() as driver:
            assert await driver.execute(impact(kind, seconds=1), impact(kind, seconds=1)) == ""
        async with libvirt_harness() as later:
            if kind != "delete":
                assert await later.execute(impact("start", number=2)) == ""
                before = await hypervisor.history()
            assert await later.execute(impact(kind, seconds=1)) == ""
        if kind != "delete":
            assert await hypervisor.history() == before
        assert (await hypervisor.history()).startswith(KINDS[kind])


@pytest.mark.spec("E9")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_driver_that_is_suspended_at_any_point(kind: str) -> None:
    """Another one continues. If the first resumes, it finds the impact executed."""
    with open_hypervisor() as hypervisor:
        calls = await _calls_of(kind)
        assert calls > 5
        async with AsyncExitStack() as stack:
            first: list[tuple[LibvirtHarness, Stall]] = []
            for number in range(1, calls + 1):
                hypervisor.define(f"web_{number}")
                stopped = await stack.enter_async_context(libvirt_harness(claim_seconds=1))
                first.append((stopped, Stall(stopped.driver, number)))
                stopped.submit(impact(kind, f"web_{number}", seconds=1))
            await asyncio.gather(*(stall.reached.wait() for _, stall in first))
            second = await stack.enter_async_context(libvirt_harness(claim_seconds=1))
            every = [impact(kind, f"web_{number}", seconds=1) for number in range(1, calls + 1)]
            assert await second.execute(*every) == ""
            for _, stall in first:
                stall.resume.set()
            await wait_until_async(
                lambda: all(driver.reports for driver, _ in first), "all have resumed"
            )
            assert {error for driver, _ in first for _, error in driver.reports} == {""}
        for number in range(1, calls + 1):
            assert await hypervisor.history(f"web_{number}") == KINDS[kind], (
                f"suspended at call {number}"
            )


async def _calls_of(kind: str) -> int:
    """Return how many calls to libvirt an impact takes without failures."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness(claim_seconds=1) as driver:
            stall = Stall(driver.driver)
            assert await driver.execute(impact(kind, seconds=0)) == ""
    return stall.calls


@pytest.mark.spec("E9")
async def test_a_driver_that_saw_the_domain_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is delayed between its read and its write while another one claims: only one acts."""
    looked = threading.Event()
    original = DomainClaim._claim

    def slow(claim: DomainClaim, record: DomainRecord) -> DomainRecord | None:
        new = original(claim, record)
        if not looked.is_set():
            looked.set()
            time.sleep(0.5)  # much less than the settling time of a claim
        return new

    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        monkeypatch.setattr(DomainClaim, "_claim", slow)
        async with (
            libvirt_harness(claim_seconds=40) as late,
            libvirt_harness(claim_seconds=40) as other,
        ):
            late.submit(impact("reboot"))
            await wait_until_async(looked.is_set, "it looks")
            other.submit(impact("reboot"))
            await wait_until_async(lambda: late.reports == other.reports != [], "both report")
        assert await hypervisor.history() == "stopped started"


async def test_two_drivers_with_different_impacts() -> None:
    """They are executed one after the other."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with (
            libvirt_harness(claim_seconds=10) as first,
            libvirt_harness(claim_seconds=10) as second,
        ):
            both = (first.execute(impact("reboot")), second.execute(impact("reboot", number=2)))
            assert set(await asyncio.gather(*both)) == {""}
        assert await hypervisor.history() == "stopped started stopped started"
        assert len(hypervisor.record().done) == 2


async def test_a_service_that_ends_during_a_freeze() -> None:
    """The driver resumes the domain at once; the next driver finds the impact executed."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness() as driver:
            driver.submit(impact("freeze", seconds=1000))
            await wait_until_async(lambda: hypervisor.state() == "paused", "it is frozen")
        assert hypervisor.state() == "running"
        async with libvirt_harness() as driver:
            assert await driver.execute(impact("freeze", seconds=1000)) == ""
        assert await hypervisor.history() == "suspended resumed"


async def test_an_impact_that_takes_too_long_fails() -> None:
    """When libvirt hangs, the driver reports a failure and executes the next impact."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness(timeout_seconds=1) as driver:
            stall = Stall(driver.driver, at=8)
            assert "not done within 1 s" in await driver.execute(impact("stop"))
            stall.resume.set()
            assert await driver.execute(impact("stop", number=2)) == ""
        assert hypervisor.state() == "off"


@pytest.mark.spec("E2", "E9")
@with_driver
async def test_a_restart_from_the_command_to_the_reboot(
    hypervisor: Hypervisor, driver: LibvirtHarness
) -> None:
    """One event by the user; the domain is powered off only once it has started (IC3)."""
    hypervisor.define("vm")
    fleet = Fleet(MemoryStore(), RealClock(), driver.driver)
    await fleet.start()
    await fleet.submit(standalone())
    published = await fleet.poll("vm")
    await fleet.submit(restart())
    (event,) = json.loads(published.body("2020-07-01"))["Events"]
    assert (event["EventType"], event["EventSource"]) == ("Reboot", "User")
    assert await hypervisor.history("vm") == ""
    await fleet.submit(Approve(scope="vm", events=(event["EventId"],)))
    await wait_until_async(lambda: b'"Events":[]' in published.body("2020-07-01"), "it is over")
    assert await hypervisor.history("vm") == "stopped started"
    assert hypervisor.record("vm").done == (f"{event['EventId']}:vm",)
    await fleet.stop()
