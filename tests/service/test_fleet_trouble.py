"""When the store is away, and when an invariant fails (X3, IS4)."""

import asyncio
import logging

import pytest

from fairwarning.core import cascade
from fairwarning.core.commands import Poll
from fairwarning.core.errors import InvariantViolated, Unavailable
from fairwarning.core.model import EventStatus, Operation, OperationStatus, Scope
from fairwarning.core.record import changed
from fairwarning.service import fleet as fleet_module
from fairwarning.service.clock import VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.store.store import Batch
from tests.fixtures.controlled_fleet import (
    ControlledDriver,
    ControlledFleet,
    ControlledStore,
    controlled_fleet,
)
from tests.fixtures.fleet import NEWEST, NOON, restart, standalone
from tests.fixtures.waiting import run_async, wait_until_async

AWAY = ["commit", "load"]


async def _cold(store: ControlledStore) -> None:
    """A fleet with a machine that is listened to, stopped: nothing of it is in memory."""
    async with controlled_fleet(store) as harness:
        await harness.fleet.submit(standalone())
        await harness.fleet.poll("vm")


@pytest.mark.spec("E9")
@pytest.mark.parametrize("away", AWAY)
@run_async
async def test_while_the_store_is_away_submitters_are_told(away: str) -> None:
    """They get Unavailable and nothing of it is seen; when the store is back it works again."""
    store = ControlledStore()
    await _cold(store)
    async with controlled_fleet(store) as harness:
        store.down = {away}
        commands = [restart(operation="one"), standalone("other"), restart(operation="two")]
        answers = await asyncio.gather(
            *(harness.fleet.submit(command) for command in commands), return_exceptions=True
        )
        assert [type(answer) for answer in answers] == [Unavailable] * 3
        assert harness.fleet.broken is None
        store.down.clear()
        assert not (await harness.scope()).events
        assert await harness.fleet.reader.read(Operation, "one") is None
        await harness.fleet.submit(restart(operation="one"))
        assert len((await harness.scope()).events) == 1


@pytest.mark.spec("E9")
@run_async
async def test_documents_are_read_while_the_store_is_away() -> None:
    """What machines have been reading they read on, with no store at all."""
    async with controlled_fleet() as harness:
        await harness.fleet.submit(standalone())
        before = (await harness.fleet.poll("vm")).body(NEWEST)
        harness.store.down = {"commit", "load", "due", "next_due"}
        for _ in range(3):
            assert (await harness.fleet.poll("vm")).body(NEWEST) == before


@pytest.mark.spec("E9")
@pytest.mark.parametrize("away", AWAY)
@run_async
async def test_a_report_is_tried_again(away: str) -> None:
    """A driver reports once; we keep trying until the store takes it."""
    async with controlled_fleet(cached=0) as harness:
        await harness.rebooting()
        harness.store.down = {away}
        harness.driver.finish()
        await harness.fleet.settled()
        for _ in range(3):
            harness.retry()
            await harness.fleet.settled()
        harness.store.down.clear()
        assert (await _operation(harness)).status is OperationStatus.RUNNING
        harness.retry()
        await harness.fleet.settled()
        assert (await _operation(harness)).status is OperationStatus.SUCCEEDED
        assert not (await harness.scope()).events


@pytest.mark.spec("E2", "E9")
@pytest.mark.parametrize("away", ["commit", "load", "due"])
@run_async
async def test_what_came_due_meanwhile_is_done_later(away: str) -> None:
    """An event whose NotBefore falls into the time the store was away starts when it is back."""
    async with controlled_fleet(cached=0) as harness:
        await harness.fleet.submit(standalone())
        await harness.fleet.poll("vm")
        await harness.fleet.submit(restart())
        harness.store.down = {away}
        await harness.clock.advance(1000)
        assert harness.driver.given == []
        harness.retry()
        await harness.fleet.settled()
        assert harness.fleet.broken is None
        harness.store.down.clear()
        harness.retry()
        await harness.fleet.settled()
        assert len(harness.driver.given) == 1
        (event,) = (await harness.scope()).events.values()
        assert event.status is EventStatus.STARTED


@pytest.mark.spec("M14")
@run_async
async def test_a_poll_is_written_when_the_store_is_back() -> None:
    """The record of who asked is tried again like everything that nobody waits for."""
    async with controlled_fleet() as harness:
        await harness.fleet.submit(standalone())
        await harness.fleet.poll("vm")
        await harness.fleet.advance(600)
        harness.store.down = {"commit"}
        await harness.fleet.poll("vm")
        await harness.fleet.settled()
        harness.store.down.clear()
        harness.retry()
        await harness.fleet.settled()
        assert (await harness.scope()).polled_at == harness.clock.now()


@run_async
async def test_a_first_poll_while_the_store_is_away() -> None:
    """It cannot enable anything, says so, and leaves nothing half done."""
    async with controlled_fleet() as harness:
        await harness.fleet.submit(standalone())
        harness.store.down = {"commit"}
        with pytest.raises(Unavailable):
            await harness.fleet.poll("vm")
        harness.store.down.clear()
        assert not (await harness.scope()).enabled
        assert (await harness.fleet.poll("vm")).incarnation == 1


# --- An invariant fails ---------------------------------------------------------------------------


async def _operation(harness: ControlledFleet) -> Operation:
    found = await harness.fleet.reader.read(Operation, "restart vm")
    assert found is not None
    return found


async def _broken(harness: ControlledFleet) -> None:
    """The store says of an operation under way that it has ended; then its impact ends."""
    await harness.rebooting()
    standing = await _operation(harness)
    ended = changed(standing, status=OperationStatus.SUCCEEDED, version=standing.version + 1)
    ref = (Operation, standing.id)
    await harness.store.commit(Batch(harness.clock.now(), {ref: (standing, ended)}))
    harness.driver.finish()
    await harness.fleet.settled()


@pytest.mark.spec("E9")
@run_async
async def test_broken_stops_writes_and_reads_go_on() -> None:
    """When an invariant fails nothing is written any more; machines read what was last true."""
    async with controlled_fleet(cached=0) as harness:
        other = await harness.rebooting("other")
        await _broken(harness)
        assert isinstance(harness.fleet.broken, InvariantViolated)
        written = len(harness.store.commits)
        harness.driver.finish(impact=other)  # a report is not written either
        await harness.fleet.settled()
        with pytest.raises(Unavailable, match="WritesStopped"):
            await harness.fleet.submit(standalone("another"))
        assert b'"Started"' in (await harness.fleet.poll("vm")).body(NEWEST)
        assert (await harness.scope()).events
        await harness.clock.advance(7200)  # the impact's limit passes, and nothing is written of it
        await harness.fleet.settled()
        assert len(harness.store.commits) == written


@run_async
async def test_broken_is_said_aloud(caplog: pytest.LogCaptureFixture) -> None:
    """An operator finds it in the log, as critical, with what failed."""
    with caplog.at_level(logging.CRITICAL):
        async with controlled_fleet(cached=0) as harness:
            await _broken(harness)
    (record,) = [r for r in caplog.records if r.levelno == logging.CRITICAL]
    assert "OperationOver" in record.getMessage()


@run_async
async def test_those_who_share_a_batch_with_the_broken() -> None:
    """Whoever waits gets an answer, and nobody is told that something was done which was not."""
    async with controlled_fleet(cached=0) as harness:
        await harness.fleet.submit(standalone("calm"))
        await _broken(harness)
        answers = await asyncio.gather(
            harness.fleet.submit(Poll(scope="calm")),
            harness.fleet.submit(standalone("new")),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [Unavailable] * 2
        assert not (await harness.scope("calm")).enabled
        assert await harness.fleet.reader.read(Scope, "new") is None


@run_async
async def test_a_broken_fleet_can_be_stopped() -> None:
    """It stops like any other, and the data is there for the next."""
    store = ControlledStore()
    async with controlled_fleet(store, cached=0) as harness:
        await _broken(harness)
    async with controlled_fleet(store) as harness:
        assert (await harness.scope()).events


@run_async
async def test_a_bug_in_the_store_stops_writes() -> None:
    """Whatever else a store raises is a bug: nobody is acknowledged, writes stop, reads go on."""
    async with controlled_fleet() as harness:
        await harness.fleet.submit(standalone())
        harness.store.bug = ZeroDivisionError("a bug")
        with pytest.raises(InvariantViolated, match="a bug"):
            await harness.fleet.submit(standalone("other"))
        harness.store.bug = None
        with pytest.raises(Unavailable, match="WritesStopped"):
            await harness.fleet.submit(standalone("other"))
        assert (await harness.scope()).machines


@run_async
async def test_a_bug_in_the_rules_stops_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that cannot be decided is a bug too, and is named."""

    def run(*_: object) -> None:
        raise KeyError("a bug")

    async with controlled_fleet() as harness:
        monkeypatch.setattr(cascade, "run", run)
        with pytest.raises(InvariantViolated, match="CreateScope could not be decided"):
            await harness.fleet.submit(standalone())
        assert harness.fleet.broken is not None


@run_async
async def test_a_fleet_that_never_wrote_can_be_stopped() -> None:
    """Opened, but not started: the store is let go of all the same."""
    store = ControlledStore()
    fleet = Fleet(store, VirtualClock(NOON), ControlledDriver())
    await fleet.open()
    await fleet.stop()
    with pytest.raises(Unavailable):
        await store.next_due()


@run_async
async def test_what_is_due_for_ever_stops_writes() -> None:
    """Something that is due but does not change would spin for ever: it is a bug, and said so."""
    async with controlled_fleet() as harness:
        await harness.fleet.submit(standalone())
        await harness.fleet.poll("vm")
        harness.store.lies = [[(Scope, "vm")]]
        harness.fleet._timers.ring()
        await harness.fleet.settled()
        assert harness.fleet.broken is not None
        assert harness.fleet.broken.code == "Stuck"


@pytest.mark.spec("E2")
@run_async
async def test_an_alarm_for_nothing_sets_the_next() -> None:
    """If nothing is due after all (another process did it), the next due time is waited for."""
    async with controlled_fleet() as harness:
        await harness.fleet.submit(standalone())
        await harness.fleet.poll("vm")
        await harness.fleet.submit(restart())
        harness.store.lies = [[]]
        harness.fleet._timers.ring()
        await harness.fleet.settled()
        await harness.fleet.advance(900)
        assert len(harness.driver.given) == 1


@run_async
async def test_retries_come_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody need ask: what could not be written is tried again after a while of real time."""
    monkeypatch.setattr(fleet_module, "RETRY_SECONDS", 0.01)
    store = ControlledStore()
    driver = ControlledDriver()
    fleet = Fleet(store, VirtualClock(NOON), driver)
    await fleet.start()
    harness = ControlledFleet(fleet, store, VirtualClock(NOON), driver)
    fleet.retry_later = fleet_module._in_real_time
    await harness.rebooting()
    store.down = {"commit"}
    driver.finish()
    await fleet.settled()
    store.down.clear()
    await wait_until_async(lambda: len(store.commits[-1].settled) > 0)
    await fleet.settled()
    assert (await _operation(harness)).status is OperationStatus.SUCCEEDED
    await fleet.stop()
    driver.finish()  # a report after the stop is nobody's
