"""Unavailable and damaged stores (X3, IS4)."""

import asyncio
import logging
from collections.abc import Iterable

import pytest

from fairwarning.core.commands import AdvanceTime, Approve
from fairwarning.core.errors import StoreDamaged, Unavailable
from fairwarning.core.model import (
    Entity,
    EventStatus,
    Operation,
    OperationStatus,
    Ref,
    Scope,
    SetAside,
)
from fairwarning.service.clock import RealClock, VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.host_time import BELIEVED_SECONDS, HostTime
from fairwarning.service.writer import command_writer
from tests.fixtures.controlled_fleet import (
    ControlledDriver,
    ControlledFleet,
    ControlledStore,
    controlled_fleet,
    on_a_controlled_fleet,
)
from tests.fixtures.fleet import NEWEST, NOON, restart, standalone
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until_async
from tests.service.host_clocks import SteppedClocks
from tests.sim.host import SimulatedHost, SimulatedRealClock

UNAVAILABLE = ["commit", "load"]


async def _cold(store: ControlledStore) -> None:
    """Create an enabled machine and stop the fleet, so that nothing is cached."""
    async with controlled_fleet(store) as harness:
        await harness.fleet.submit(standalone())
        await harness.fleet.poll("vm")


@pytest.mark.spec("E9")
@pytest.mark.parametrize("call", UNAVAILABLE)
async def test_submitters_get_unavailable_while_the_store_is_down(call: str) -> None:
    """Submitters get Unavailable and nothing changes; after recovery commands work again."""
    store = ControlledStore()
    await _cold(store)
    async with controlled_fleet(store) as harness:
        store.down = {call}
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


@pytest.mark.spec("E11")
async def test_pending_time_is_stored_once_the_store_is_back() -> None:
    """A reboot of the host loses no more than the last minute of it."""
    clocks, store = SteppedClocks(), ControlledStore()
    fleet = Fleet(store, RealClock(clocks), ControlledDriver())
    await fleet.start()
    for command in (standalone(), restart()):
        await fleet.submit(command)
        await fleet.poll("vm")
    store.down = {"commit"}
    for step in (3600, -1800):
        clocks.step_wall(step)
        clocks.pass_time(150)
        await fleet.compare_clocks()
    store.down.clear()
    await fleet.compare_clocks()
    await fleet.stop()
    clocks.reboot()
    restarted = HostTime(clocks)
    states = [batch.notes["clock"] for batch in store.commits if "clock" in batch.notes]
    restarted.restore(states[-1], NOON)
    assert NOON + 240 <= restarted.now() <= NOON + 300


@pytest.mark.spec("M14", "E11")
async def test_a_jump_of_fleet_time_is_no_time_without_polls() -> None:
    """A host boots with a clock that is a day behind: a machine that polls keeps its notice."""
    host = SimulatedHost(NOON)
    clock = SimulatedRealClock(host)
    fleet = Fleet(ControlledStore(), clock, ControlledDriver())
    await fleet.start()
    await fleet.submit(standalone())
    before = (await fleet.poll("vm")).scope
    assert before
    host.step(26 * 3600)
    for seconds in (0, BELIEVED_SECONDS, 0):
        await fleet.compare_clocks()
        await clock.advance(seconds)
    assert clock.now() == host.wall()

    async def scope() -> Scope:
        found = await fleet.reader.read(Scope, "vm")
        assert found
        return found

    async with asyncio.timeout(LIMIT_SECONDS):
        while (after := await scope()).version == before.version:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert after.enabled
        assert after.polled_at == clock.now()
        await clock.advance(after.rules.idle_seconds)
        while (await scope()).enabled:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await fleet.stop()


@pytest.mark.spec("E9")
@on_a_controlled_fleet
async def test_documents_are_read_while_the_store_is_unavailable(harness: ControlledFleet) -> None:
    """Machines can still read their documents while the store is unavailable."""
    await harness.fleet.submit(standalone())
    before = (await harness.fleet.poll("vm")).body(NEWEST)
    harness.store.down = {"commit", "load", "due", "next_due"}
    for _ in range(3):
        assert (await harness.fleet.poll("vm")).body(NEWEST) == before


@pytest.mark.spec("E9")
@pytest.mark.parametrize("call", UNAVAILABLE)
async def test_a_report_is_retried(call: str) -> None:
    """A driver reports once; the fleet retries until the store accepts the report."""
    async with controlled_fleet(cached=0) as harness:
        await harness.rebooting()
        harness.store.down = {call}
        harness.driver.finish()
        await harness.fleet.settled()
        for _ in range(3):
            harness.retry()
            await harness.fleet.settled()
        harness.store.down.clear()
        assert (await harness.operation()).status is OperationStatus.RUNNING
        harness.retry()
        await harness.fleet.settled()
        assert (await harness.operation()).status is OperationStatus.SUCCEEDED
        assert not (await harness.scope()).events


@pytest.mark.spec("E2", "E9")
@pytest.mark.parametrize("call", ["commit", "load", "due"])
async def test_an_event_due_during_an_outage_starts_later(call: str) -> None:
    """An event whose NotBefore passes during an outage starts after the store recovers."""
    async with controlled_fleet(cached=0) as harness:
        await harness.announced()
        harness.store.down = {call}
        await harness.clock.advance(1000)
        assert harness.driver.impacts == []
        harness.retry()
        await harness.fleet.settled()
        assert harness.fleet.broken is None
        harness.store.down.clear()
        harness.retry()
        await harness.fleet.settled()
        assert len(harness.driver.impacts) == 1
        (event,) = (await harness.scope()).events.values()
        assert event.status is EventStatus.STARTED


@pytest.mark.spec("M14")
@on_a_controlled_fleet
async def test_a_poll_is_recorded_after_an_outage(harness: ControlledFleet) -> None:
    """A poll that could not be recorded is retried."""
    await harness.fleet.submit(standalone())
    await harness.fleet.poll("vm")
    await harness.fleet.advance(600)
    harness.store.down = {"record_polls"}
    await harness.fleet.poll("vm")
    await harness.fleet.settled()
    assert await harness.store.recorded_polls(["vm"]) == {}
    harness.store.down.clear()
    harness.retry()
    await harness.fleet.settled()
    assert await harness.store.recorded_polls(["vm"]) == {"vm": harness.clock.now()}


@on_a_controlled_fleet
async def test_a_first_poll_during_an_outage(harness: ControlledFleet) -> None:
    """A first poll during an outage gets Unavailable and enables nothing."""
    await harness.fleet.submit(standalone())
    harness.store.down = {"commit"}
    with pytest.raises(Unavailable):
        await harness.fleet.poll("vm")
    harness.store.down.clear()
    assert not (await harness.scope()).enabled
    assert (await harness.fleet.poll("vm")).incarnation == 1


@pytest.mark.spec("E9")
@on_a_controlled_fleet
async def test_a_commit_whose_outcome_is_unknown(
    harness: ControlledFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it stored is shown and carried out without a restart, and commands work again.

    Something else that it stored cannot be read: that stays with it (IB1).
    """
    await harness.fleet.submit(standalone())
    published = await harness.fleet.poll("vm")
    await harness.fleet.submit(restart())
    (event,) = (await harness.scope()).events
    harness.store.down = {"acknowledge"}
    with pytest.raises(Unavailable, match="StoreUnclear"):
        await harness.fleet.submit(Approve(scope="vm", events=(event,)))
    harness.store.down.clear()
    load = harness.store.load

    async def load_all_but_operations(refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        if any(kind is Operation for kind, _ in refs):
            raise KeyError("a row that cannot be read")
        return await load(refs)

    monkeypatch.setattr(harness.store, "load", load_all_but_operations)
    harness.retry()
    await harness.fleet.settled()
    monkeypatch.undo()
    assert b'"Started"' in published.body(NEWEST)
    assert len(harness.driver.impacts) == 1
    harness.driver.finish()
    await harness.fleet.settled()
    assert (await harness.operation()).status is OperationStatus.SUCCEEDED
    assert harness.fleet.broken is None


@pytest.mark.spec("E9")
@on_a_controlled_fleet
async def test_a_report_in_a_batch_that_fails(
    harness: ControlledFleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A driver reports once: whatever made the batch fail, the report is tried again (IL14)."""
    await harness.rebooting()

    def fail(_: object) -> None:
        raise KeyError("a bug after the commit")

    monkeypatch.setattr(harness.fleet.writer, "process_batch", fail)
    harness.driver.finish()
    await harness.fleet.settled()
    assert "a batch failed" in caplog.text
    monkeypatch.undo()
    harness.retry()
    await harness.fleet.settled()
    assert (await harness.operation()).status is OperationStatus.SUCCEEDED


@pytest.mark.spec("X7")
@on_a_controlled_fleet
async def test_due_work_that_cannot_be_read(
    harness: ControlledFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands are decided meanwhile, and the due work is done once it can be read (IB1)."""
    await harness.announced()
    monkeypatch.setattr(harness.store, "due_entities", KeyError("a row"))
    advancing = asyncio.create_task(harness.fleet.advance(900))
    await harness.fleet.submit(standalone("other"))
    await advancing
    assert not harness.driver.impacts
    monkeypatch.undo()
    harness.retry()
    await harness.fleet.settled()
    assert len(harness.driver.impacts) == 1


# --- The store contradicts itself -----------------------------------------------------------------


async def _broken(harness: ControlledFleet) -> None:
    """Let the store find that its file is damaged."""
    await harness.rebooting()
    harness.store.bug = StoreDamaged("StoreCorrupt", "the file is damaged")
    harness.driver.finish()
    await harness.fleet.settled()
    harness.store.bug = None


@pytest.mark.spec("E9")
async def test_a_damaged_store_stops_writes_but_not_reads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After the store contradicts itself nothing is written; machines read what was committed."""
    async with controlled_fleet(cached=0) as harness:
        other = await harness.rebooting("other")
        await _broken(harness)
        assert isinstance(harness.fleet.broken, StoreDamaged)
        written = len(harness.store.commits)
        harness.driver.finish(impact=other)  # a report is not written either
        await harness.fleet.settled()
        with pytest.raises(Unavailable, match="WritesStopped"):
            await harness.fleet.submit(standalone("another"))
        assert b'"Started"' in (await harness.fleet.poll("vm")).body(NEWEST)
        assert (await harness.scope()).events
        await harness.fleet.store_check.error()  # which writes to find out
        await harness.clock.advance(7200)  # past the impact's limit: nothing is written
        await harness.fleet.settled()
        assert len(harness.store.commits) == written
    (record,) = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert "StoreCorrupt" in record.getMessage()


async def test_a_broken_fleet_can_be_stopped() -> None:
    """A broken fleet stops cleanly, and the next process finds the data."""
    store = ControlledStore()
    async with controlled_fleet(store, cached=0) as harness:
        await _broken(harness)
    async with controlled_fleet(store) as harness:
        assert (await harness.scope()).events


async def test_a_task_that_failed_does_not_prevent_the_stop() -> None:
    """IB6: whatever happened to the background work, the store is closed."""

    async def fail() -> None:
        raise KeyError("a bug")

    store = ControlledStore()
    async with controlled_fleet(store) as harness:
        harness.fleet.writer._retiring = asyncio.create_task(fail())
        harness.fleet._tasks.append(asyncio.create_task(fail()))
        await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await store.next_due()


@on_a_controlled_fleet
async def test_a_due_time_of_other_rules_is_corrected(harness: ControlledFleet) -> None:
    """A due time that an earlier version stored, and that no rule knows now, is written anew."""
    await harness.fleet.submit(standalone())
    await harness.fleet.poll("vm")
    before = await harness.scope()
    harness.store.lies = [[(Scope, "vm")]]
    harness.fleet.writer._timers.fire()
    await harness.fleet.settled()
    assert harness.fleet.broken is None
    assert (await harness.scope()).version == before.version + 1
    await harness.fleet.submit(restart())  # it is decided on the new version


@pytest.mark.spec("E2")
@on_a_controlled_fleet
async def test_an_alarm_without_due_entities_sets_the_next(harness: ControlledFleet) -> None:
    """If nothing is due (another process handled it), the timer is set to the next due time."""
    await harness.announced()
    harness.store.lies = [[]]
    harness.fleet.writer._timers.fire()
    await harness.fleet.settled()
    await harness.fleet.advance(900)
    assert len(harness.driver.impacts) == 1


async def test_failed_writes_are_retried_automatically(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed write is retried automatically after a while of real time."""
    monkeypatch.setattr(command_writer, "RETRY_SECONDS", 0.01)
    store = ControlledStore()
    driver = ControlledDriver()
    fleet = Fleet(store, VirtualClock(NOON), driver)
    await fleet.start()
    harness = ControlledFleet(fleet, store, VirtualClock(NOON), driver)
    fleet.writer.retry_later = command_writer._in_real_time
    await harness.rebooting()
    store.down = {"commit"}
    driver.finish()
    await fleet.settled()
    store.down.clear()
    await wait_until_async(lambda: len(store.commits[-1].settled) > 0)
    await fleet.settled()
    assert (await harness.operation()).status is OperationStatus.SUCCEEDED
    await fleet.stop()
    driver.finish()  # a report after the stop is ignored


@on_a_controlled_fleet
async def test_an_entity_that_became_due_meanwhile_is_not_set_aside(
    harness: ControlledFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what was due when it was told so is a bug: deciding and loading take time."""
    await harness.announced()
    due = await harness.fleet.store.next_due()
    assert due is not None
    monkeypatch.setattr(harness.fleet.clock, "now", lambda: due + 1)
    advance = AdvanceTime(scope="vm")
    work = await harness.fleet._committer.correct_due([advance], due - 0.1)
    assert work.committed
    assert (SetAside, "Scope/vm") not in work.changes
    work = await harness.fleet._committer.correct_due([advance], due)
    assert (SetAside, "Scope/vm") in work.changes
