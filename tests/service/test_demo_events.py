"""The events that the demo announces by itself, on a fleet without handlers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairwarning.core.commands import Poll
from fairwarning.core.model import Rollout, Scope
from fairwarning.service.clock import VirtualClock
from fairwarning.service.config import fleet_file
from fairwarning.service.fleet import Fleet
from fairwarning.store.memory import MemoryStore
from fairwarning.testing import demo
from fairwarning.testing.demo import DemoEvents
from tests.fixtures.fleet import NOON, simulated_driver

SCOPES = ("api/0", "mail")
HOUR_SECONDS = 3600.0


@asynccontextmanager
async def demo_fleet(*polled: str) -> AsyncIterator[Fleet]:
    """The demo's fleet, in which machines of these scopes have polled."""
    clock = VirtualClock(NOON)
    fleet = Fleet(MemoryStore(), clock, simulated_driver(clock))
    await fleet.start()
    try:
        await fleet_file.apply(fleet_file.demo(), fleet.submit)
        for scope in polled:
            await fleet.submit(Poll(scope=scope))
        yield fleet
    finally:
        await fleet.stop()


async def impacts(fleet: Fleet, scope: str) -> list[str]:
    """The machines of a scope that have an unfinished impact."""
    state = await fleet.reader.read(Scope, scope)
    assert state is not None
    return list(state.impacts)


@pytest.mark.spec("O1")
async def test_a_scope_that_no_machine_polls_is_left_alone() -> None:
    """An event there would have no notice."""
    async with demo_fleet() as fleet:
        await DemoEvents(fleet).begin()
        assert [await impacts(fleet, scope) for scope in SCOPES] == [[], []]
        assert await fleet.reader.list_ids(Rollout, "", 10) == []


@pytest.mark.spec("O1")
async def test_events_go_on_after_the_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the rollout is done, machines get events in turn, one at a time."""
    monkeypatch.setattr(demo, "_LEAST_SECONDS", 0.0)
    async with demo_fleet(*SCOPES) as fleet:
        demo_events = DemoEvents(fleet)
        await demo_events.begin()
        await fleet.advance(HOUR_SECONDS)
        rollout = await fleet.reader.read(Rollout, demo.ROLLOUT)
        assert rollout is not None
        assert rollout.ended_at is not None
        task = asyncio.create_task(demo_events.run())
        seen: list[list[str]] = []
        while len(seen) < 4:
            await fleet.advance(60)
            await fleet.settled()
            await asyncio.sleep(0)  # the task may announce the next event
            machines = await impacts(fleet, "api/0")
            if machines and machines not in seen[-1:]:
                seen.append(machines)
        task.cancel()
        assert seen == [["api_0"], ["api_1"], ["api_2"], ["api_0"]]
