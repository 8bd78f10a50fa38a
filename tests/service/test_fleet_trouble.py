"""When the store is away, and when an invariant fails (X3, IS4)."""

import asyncio
import logging

import pytest

from fairwarning.core import cascade
from fairwarning.core.commands import Poll
from fairwarning.core.errors import Broken, Unavailable
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
    async with controlled_fleet(store) as it:
        await it.fleet.submit(standalone())
        await it.fleet.poll("vm")


@pytest.mark.spec("E9")
@pytest.mark.parametrize("away", AWAY)
@run_async
async def test_while_the_store_is_away_submitters_are_told(away: str) -> None:
    """They get Unavailable and nothing of it is seen; when the store is back it works again."""
    store = ControlledStore()
    await _cold(store)
    async with controlled_fleet(store) as it:
        store.down = {away}
        commands = [restart(operation="one"), standalone("other"), restart(operation="two")]
        answers = await asyncio.gather(
            *(it.fleet.submit(command) for command in commands), return_exceptions=True
        )
        assert [type(answer) for answer in answers] == [Unavailable] * 3
        assert it.fleet.broken is None
        store.down.clear()
        assert not (await it.scope()).events
        assert await it.fleet.read(Operation, "one") is None
        await it.fleet.submit(restart(operation="one"))
        assert len((await it.scope()).events) == 1


@pytest.mark.spec("E9")
@run_async
async def test_documents_are_read_while_the_store_is_away() -> None:
    """What machines have been reading they read on, with no store at all."""
    async with controlled_fleet() as it:
        await it.fleet.submit(standalone())
        before = (await it.fleet.poll("vm")).body(NEWEST)
        it.store.down = {"commit", "load", "due", "next_due"}
        for _ in range(3):
            assert (await it.fleet.poll("vm")).body(NEWEST) == before


@pytest.mark.spec("E9")
@pytest.mark.parametrize("away", AWAY)
@run_async
async def test_a_report_is_tried_again(away: str) -> None:
    """A driver reports once; we keep trying until the store takes it."""
    async with controlled_fleet(cached=0) as it:
        await it.rebooting()
        it.store.down = {away}
        it.driver.finish()
        await it.fleet.settled()
        for _ in range(3):
            it.retry()
            await it.fleet.settled()
        it.store.down.clear()
        assert (await _operation(it)).status is OperationStatus.RUNNING
        it.retry()
        await it.fleet.settled()
        assert (await _operation(it)).status is OperationStatus.SUCCEEDED
        assert not (await it.scope()).events


@pytest.mark.spec("E2", "E9")
@pytest.mark.parametrize("away", ["commit", "load", "due"])
@run_async
async def test_what_came_due_meanwhile_is_done_later(away: str) -> None:
    """An event whose NotBefore falls into the time the store was away starts when it is back."""
    async with controlled_fleet(cached=0) as it:
        await it.fleet.submit(standalone())
        await it.fleet.poll("vm")
        await it.fleet.submit(restart())
        it.store.down = {away}
        await it.clock.advance(1000)
        assert it.driver.given == []
        it.retry()
        await it.fleet.settled()
        assert it.fleet.broken is None
        it.store.down.clear()
        it.retry()
        await it.fleet.settled()
        assert len(it.driver.given) == 1
        (event,) = (await it.scope()).events.values()
        assert event.status is EventStatus.STARTED


@pytest.mark.spec("M14")
@run_async
async def test_a_poll_is_written_when_the_store_is_back() -> None:
    """The record of who asked is tried again like everything that nobody waits for."""
    async with controlled_fleet() as it:
        await it.fleet.submit(standalone())
        await it.fleet.poll("vm")
        await it.fleet.advance(600)
        it.store.down = {"commit"}
        await it.fleet.poll("vm")
        await it.fleet.settled()
        it.store.down.clear()
        it.retry()
        await it.fleet.settled()
        assert (await it.scope()).polled_at == it.clock.now()


@run_async
async def test_a_first_poll_while_the_store_is_away() -> None:
    """It cannot enable anything, says so, and leaves nothing half done."""
    async with controlled_fleet() as it:
        await it.fleet.submit(standalone())
        it.store.down = {"commit"}
        with pytest.raises(Unavailable):
            await it.fleet.poll("vm")
        it.store.down.clear()
        assert not (await it.scope()).enabled
        assert (await it.fleet.poll("vm")).incarnation == 1


# --- An invariant fails ---------------------------------------------------------------------------


async def _operation(it: ControlledFleet) -> Operation:
    found = await it.fleet.read(Operation, "restart vm")
    assert found is not None
    return found


async def _broken(it: ControlledFleet) -> None:
    """The store says of an operation under way that it has ended; then its impact ends."""
    await it.rebooting()
    standing = await _operation(it)
    ended = changed(standing, status=OperationStatus.SUCCEEDED, version=standing.version + 1)
    ref = (Operation, standing.id)
    await it.store.commit(Batch(it.clock.now(), {ref: (standing, ended)}))
    it.driver.finish()
    await it.fleet.settled()


@pytest.mark.spec("E9")
@run_async
async def test_broken_stops_writes_and_reads_go_on() -> None:
    """When an invariant fails nothing is written any more; machines read what was last true."""
    async with controlled_fleet(cached=0) as it:
        other = await it.rebooting("other")
        await _broken(it)
        assert isinstance(it.fleet.broken, Broken)
        written = len(it.store.commits)
        it.driver.finish(impact=other)  # a report is not written either
        await it.fleet.settled()
        with pytest.raises(Unavailable, match="WritesStopped"):
            await it.fleet.submit(standalone("another"))
        assert b'"Started"' in (await it.fleet.poll("vm")).body(NEWEST)
        assert (await it.scope()).events
        await it.clock.advance(7200)  # the impact's limit passes, and nothing is written of it
        await it.fleet.settled()
        assert len(it.store.commits) == written


@run_async
async def test_broken_is_said_aloud(caplog: pytest.LogCaptureFixture) -> None:
    """An operator finds it in the log, as critical, with what failed."""
    with caplog.at_level(logging.CRITICAL):
        async with controlled_fleet(cached=0) as it:
            await _broken(it)
    (record,) = [r for r in caplog.records if r.levelno == logging.CRITICAL]
    assert "OperationOver" in record.getMessage()


@run_async
async def test_those_who_share_a_batch_with_the_broken() -> None:
    """Whoever waits gets an answer, and nobody is told that something was done which was not."""
    async with controlled_fleet(cached=0) as it:
        await it.fleet.submit(standalone("calm"))
        await _broken(it)
        answers = await asyncio.gather(
            it.fleet.submit(Poll(scope="calm")),
            it.fleet.submit(standalone("new")),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [Unavailable] * 2
        assert not (await it.scope("calm")).enabled
        assert await it.fleet.read(Scope, "new") is None


@run_async
async def test_a_broken_fleet_can_be_stopped() -> None:
    """It stops like any other, and the data is there for the next."""
    store = ControlledStore()
    async with controlled_fleet(store, cached=0) as it:
        await _broken(it)
    async with controlled_fleet(store) as it:
        assert (await it.scope()).events


@run_async
async def test_a_bug_in_the_store_stops_writes() -> None:
    """Whatever else a store raises is a bug: nobody is acknowledged, writes stop, reads go on."""
    async with controlled_fleet() as it:
        await it.fleet.submit(standalone())
        it.store.bug = ZeroDivisionError("a bug")
        with pytest.raises(Broken, match="a bug"):
            await it.fleet.submit(standalone("other"))
        it.store.bug = None
        with pytest.raises(Unavailable, match="WritesStopped"):
            await it.fleet.submit(standalone("other"))
        assert (await it.scope()).machines


@run_async
async def test_a_bug_in_the_rules_stops_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that cannot be decided is a bug too, and is named."""

    def run(*_: object) -> None:
        raise KeyError("a bug")

    async with controlled_fleet() as it:
        monkeypatch.setattr(cascade, "run", run)
        with pytest.raises(Broken, match="CreateScope could not be decided"):
            await it.fleet.submit(standalone())
        assert it.fleet.broken is not None


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
    async with controlled_fleet() as it:
        await it.fleet.submit(standalone())
        await it.fleet.poll("vm")
        it.store.lies = [[(Scope, "vm")]]
        it.fleet._timers.ring()
        await it.fleet.settled()
        assert it.fleet.broken is not None
        assert it.fleet.broken.code == "Stuck"


@pytest.mark.spec("E2")
@run_async
async def test_an_alarm_for_nothing_sets_the_next() -> None:
    """If nothing is due after all (another process did it), the next due time is waited for."""
    async with controlled_fleet() as it:
        await it.fleet.submit(standalone())
        await it.fleet.poll("vm")
        await it.fleet.submit(restart())
        it.store.lies = [[]]
        it.fleet._timers.ring()
        await it.fleet.settled()
        await it.fleet.advance(900)
        assert len(it.driver.given) == 1


@run_async
async def test_retries_come_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody need ask: what could not be written is tried again after a while of real time."""
    monkeypatch.setattr(fleet_module, "RETRY_SECONDS", 0.01)
    store = ControlledStore()
    driver = ControlledDriver()
    fleet = Fleet(store, VirtualClock(NOON), driver)
    await fleet.start()
    it = ControlledFleet(fleet, store, VirtualClock(NOON), driver)
    fleet.retry_later = fleet_module._in_real_time
    await it.rebooting()
    store.down = {"commit"}
    driver.finish()
    await fleet.settled()
    store.down.clear()
    await wait_until_async(lambda: len(store.commits[-1].settled) > 0)
    await fleet.settled()
    assert (await _operation(it)).status is OperationStatus.SUCCEEDED
    await fleet.stop()
    driver.finish()  # a report after the stop is nobody's
