"""Progress is reported only by a process that can commit, or knows why it cannot (IB6)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import pytest

from fairwarning.core.commands import CreateScope
from fairwarning.core.errors import Unavailable
from fairwarning.core.model import ScopeKind
from fairwarning.server.progress import ProgressReporter, StartStep
from fairwarning.service.clock import RealClock
from fairwarning.service.fleet import Fleet
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import Batch
from tests.fixtures.fleet import simulated_driver
from tests.fixtures.waiting import using, wait_until_async

CREATE = CreateScope(scope="web", kind=ScopeKind.AVAILABILITY_SET, machines=())


class FailingStore(MemoryStore):
    """Holds some commits, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.holds_commands = self.holds_all = self.is_away = False
        self.held = 0
        self.release = asyncio.Event()

    async def commit(self, batch: Batch) -> float | None:
        if self.is_away:
            raise Unavailable("StoreAway", "the database is unreachable; try again")
        if self.holds_all or (self.holds_commands and batch.changes):
            self.held += 1
            await self.release.wait()
        return await super().commit(batch)


class Watched:
    """A fleet, and what it reports to its supervisor."""

    period_seconds = 10.0

    def __init__(self) -> None:
        self.store = FailingStore()
        clock = RealClock()
        self.fleet = Fleet(self.store, clock, simulated_driver(clock))
        self.step: StartStep | None = None
        self.starts: list[str] = []
        self.progress = 0
        self.errors: list[Unavailable] = []
        self.reporter = ProgressReporter(self, self.fleet, lambda: self.step, self.errors.append)

    async def report(self) -> int:
        """Let a period pass; return how many reports of progress it brought."""
        before = self.progress
        self.fleet.store_check._checked = float("-inf")
        await self.reporter.report()
        return self.progress - before

    def report_start(self, waiting_for: str) -> None:
        self.starts.append(waiting_for)

    def report_progress(self) -> None:
        self.progress += 1

    def report_ready(self) -> None: ...

    def report_stop(self) -> None: ...


@asynccontextmanager
async def watched() -> AsyncIterator[tuple[Watched]]:
    """A running fleet under supervision."""
    process = Watched()
    await process.fleet.start()
    try:
        yield (process,)
    finally:
        process.store.release.set()
        await process.fleet.stop()


on_watched_fleet = using(watched, 1)


@on_watched_fleet
async def test_a_fleet_makes_progress_while_it_is_idle_and_while_it_works(process: Watched) -> None:
    """A report for each period."""
    assert await process.report() == 1
    await process.fleet.submit(CREATE)
    assert await process.report() == 1


@on_watched_fleet
async def test_a_writer_that_hangs_makes_no_progress(process: Watched) -> None:
    """Although the event loop runs and the store can be written."""
    process.store.holds_commands = True
    waiting = asyncio.create_task(process.fleet.submit(CREATE))
    await wait_until_async(lambda: process.store.held, "the writer waits")
    assert await process.report() == 1  # it has turned since the last report
    assert [await process.report() for _ in range(3)] == [0, 0, 0]
    process.store.release.set()
    await waiting
    assert await process.report() == 1


@on_watched_fleet
async def test_a_store_that_hangs_makes_no_progress(process: Watched) -> None:
    """Although nothing waits for the writer."""
    process.store.holds_all = True
    report = asyncio.create_task(process.report())
    await wait_until_async(lambda: process.store.held, "the check waits")
    assert not report.done()
    process.store.release.set()
    assert await report == 1


@on_watched_fleet
async def test_a_store_that_is_away_is_no_reason_to_restart(process: Watched) -> None:
    """The process knows it, and another one could not write either."""
    process.store.is_away = True
    with pytest.raises(Unavailable):
        await process.fleet.submit(CREATE)
    assert [await process.report() for _ in range(3)] == [1, 1, 1]


@on_watched_fleet
async def test_a_step_of_the_start_is_given_up_after_its_limit(
    process: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then it is reported and logged."""
    process.step = StartStep("the store to open", 60, since=monotonic() - 30)
    assert (await process.report(), process.starts) == (0, ["the store to open"])
    assert "waiting for the store to open since 30 s" in caplog.text
    process.step = StartStep("the store to open", 60, since=monotonic() - 61)
    assert (await process.report(), process.starts) == (0, ["the store to open"])
    assert [error.code for error in process.errors] == ["StartTimedOut"]
