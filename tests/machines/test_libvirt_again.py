"""An impact happens to a domain once, whoever is handed it, and however often (IL5)."""

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
from tests.fixtures.waiting import run_async, wait_until_async
from tests.machines.libvirt_harness import (
    LibvirtDriverHarness,
    impact,
    libvirt_harness,
    open_hypervisor,
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
    """Holds a driver up at one of its calls, as if its process had been stopped right there."""

    def __init__(self, driver: LibvirtDriver, at: int = 0) -> None:
        (host,) = driver._ways.hosts
        self.calls = 0
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        call = host.call

        async def stalled(connection: object, function: Callable[[], T]) -> T:
            self.calls += 1
            if self.calls == at:
                self.reached.set()
                await self.go_on.wait()
            return await call(connection, function)

        host.call = stalled  # type: ignore[method-assign]


@pytest.mark.spec("E9")
@pytest.mark.parametrize("kind", KINDS)
@run_async
async def test_what_was_done_is_not_done_again(kind: str) -> None:
    """Not by this driver, nor by a later one, nor after other impacts, nor at the same time."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness() as driver:
            assert await driver.over(impact(kind, seconds=1), impact(kind, seconds=1)) == ""
        async with libvirt_harness() as later:
            if kind != "delete":
                assert await later.over(impact("start", number=2)) == ""
                before = await hypervisor.history()
            assert await later.over(impact(kind, seconds=1)) == ""
        if kind != "delete":
            assert await hypervisor.history() == before
        assert (await hypervisor.history()).startswith(KINDS[kind])


@pytest.mark.spec("E9")
@pytest.mark.parametrize("kind", KINDS)
@run_async
async def test_a_driver_that_ends_at_any_moment(kind: str) -> None:
    """Another goes on where it was. If the first only slept and wakes up, it finds it done."""
    with open_hypervisor() as hypervisor:
        calls = await _calls_of(kind)
        assert calls > 5
        async with AsyncExitStack() as stack:
            first: list[tuple[LibvirtDriverHarness, Stall]] = []
            for number in range(1, calls + 1):
                hypervisor.define(f"web_{number}")
                stopped = await stack.enter_async_context(libvirt_harness(claim_seconds=1))
                first.append((stopped, Stall(stopped.driver, number)))
                stopped.give(impact(kind, f"web_{number}", seconds=1))
            await asyncio.gather(*(stall.reached.wait() for _, stall in first))
            second = await stack.enter_async_context(libvirt_harness(claim_seconds=1))
            every = [impact(kind, f"web_{number}", seconds=1) for number in range(1, calls + 1)]
            assert await second.over(*every) == ""
            for _, stall in first:
                stall.go_on.set()
            await wait_until_async(
                lambda: all(one.reports for one, _ in first), "all have woken up"
            )
            assert {error for one, _ in first for _, error in one.reports} == {""}
        for number in range(1, calls + 1):
            assert await hypervisor.history(f"web_{number}") == KINDS[kind], (
                f"stopped at call {number}"
            )


async def _calls_of(kind: str) -> int:
    """How many calls to libvirt an impact takes, when nothing happens."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness(claim_seconds=1) as driver:
            stall = Stall(driver.driver)
            assert await driver.over(impact(kind, seconds=0)) == ""
    return stall.calls


@pytest.mark.spec("E9")
@pytest.mark.parametrize("kind", ["reboot", "freeze"])
@run_async
async def test_two_drivers_at_once(kind: str) -> None:
    """Both are handed the same impacts at the same time: one acts, both report."""
    with open_hypervisor() as hypervisor:
        names = [f"web_{number}" for number in range(5)]
        for name in names:
            hypervisor.define(name)
        every = [impact(kind, name, seconds=1) for name in names]
        async with (
            libvirt_harness(claim_seconds=10) as one,
            libvirt_harness(claim_seconds=10) as other,
        ):
            errors = await asyncio.gather(one.over(*every), other.over(*every))
            assert set(errors) == {""}
        for name in names:
            assert await hypervisor.history(name) == KINDS[kind]


@pytest.mark.spec("E9")
@run_async
async def test_a_driver_that_saw_the_domain_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is held up between looking and writing, and meanwhile another claims: one acts."""
    looked = threading.Event()
    claimed = DomainClaim._claimed

    def slow(claim: DomainClaim, record: DomainRecord) -> DomainRecord | None:
        new = claimed(claim, record)
        if not looked.is_set():
            looked.set()
            time.sleep(0.5)  # much less than what a claim has to stand for
        return new

    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        monkeypatch.setattr(DomainClaim, "_claimed", slow)
        async with (
            libvirt_harness(claim_seconds=40) as late,
            libvirt_harness(claim_seconds=40) as other,
        ):
            late.give(impact("reboot"))
            await wait_until_async(looked.is_set, "it looks")
            other.give(impact("reboot"))
            await wait_until_async(lambda: late.reports == other.reports != [], "both report")
        assert await hypervisor.history() == "stopped started"


@run_async
async def test_two_drivers_with_different_impacts() -> None:
    """They follow one another."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with (
            libvirt_harness(claim_seconds=10) as one,
            libvirt_harness(claim_seconds=10) as other,
        ):
            both = (one.over(impact("reboot")), other.over(impact("reboot", number=2)))
            assert set(await asyncio.gather(*both)) == {""}
        assert await hypervisor.history() == "stopped started stopped started"
        assert len(hypervisor.record().done) == 2


@run_async
async def test_a_service_that_ends_during_a_freeze() -> None:
    """The domain does not stand still until another comes; the one that comes finds it done."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness() as driver:
            driver.give(impact("freeze", seconds=1000))
            await wait_until_async(lambda: hypervisor.state() == "paused", "it is frozen")
        assert hypervisor.state() == "running"
        async with libvirt_harness() as driver:
            assert await driver.over(impact("freeze", seconds=1000)) == ""
        assert await hypervisor.history() == "suspended resumed"


@run_async
async def test_what_takes_too_long_has_failed() -> None:
    """When libvirt hangs, the impact is reported as failed, and the next one is carried out."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness(timeout_seconds=1) as driver:
            stall = Stall(driver.driver, at=8)
            assert "not done within 1 s" in await driver.over(impact("stop"))
            stall.go_on.set()
            assert await driver.over(impact("stop", number=2)) == ""
        assert hypervisor.state() == "off"


@pytest.mark.spec("E2", "E9")
@run_async
async def test_a_restart_from_the_order_to_the_reboot() -> None:
    """One event by the user; the power goes off when it has started, and no earlier (IC3)."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("vm")
        async with libvirt_harness() as driver:
            fleet = Fleet(MemoryStore(), RealClock(), driver.driver)
            await fleet.start()
            await fleet.submit(standalone())
            published = await fleet.poll("vm")
            await fleet.submit(restart())
            (event,) = json.loads(published.body("2020-07-01"))["Events"]
            assert (event["EventType"], event["EventSource"]) == ("Reboot", "User")
            assert await hypervisor.history("vm") == ""
            await fleet.submit(Approve(scope="vm", events=(event["EventId"],)))
            await wait_until_async(
                lambda: b'"Events":[]' in published.body("2020-07-01"), "it is over"
            )
            assert await hypervisor.history("vm") == "stopped started"
            assert hypervisor.record("vm").done == (f"{event['EventId']}:vm",)
            await fleet.stop()
