"""A bug in one decision stops one entity: it is set aside, and all others go on (IB1)."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from fairwarning.core import cascade, engine
from fairwarning.core.commands import (
    AdvanceTime,
    Approve,
    Command,
    Poll,
    Release,
    ReportImpact,
    target_of,
)
from fairwarning.core.decision import FactType
from fairwarning.core.errors import Bug, NotFound
from fairwarning.core.model import Entity, EventStatus, OperationStatus, Scope
from fairwarning.service.clock import VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.writer import set_aside
from fairwarning.store.sqlite import SQLiteStore
from tests.fixtures.controlled_fleet import (
    ControlledFleet,
    ControlledStore,
    controlled_fleet,
    on_a_controlled_fleet,
)
from tests.fixtures.fleet import NEWEST, NOON, restart, simulated_driver, standalone

pytestmark = pytest.mark.spec("X7")


def plant(monkeypatch: pytest.MonkeyPatch, kind: type[Command], scope: str) -> None:
    """Let decisions on one kind of command to one scope raise."""
    decide: Callable[..., Any] = engine.decide

    def buggy(current: object, command: Command, *rest: object) -> object:
        if isinstance(command, kind) and target_of(command) == scope:
            raise ZeroDivisionError("a bug\x00")
        return decide(current, command, *rest)

    monkeypatch.setattr(engine, "decide", buggy)


async def facts(harness: ControlledFleet, scope: str) -> list[FactType]:
    """What the journal says about a scope."""
    entity = type(await harness.scope(scope)), scope
    return [entry.line.fact.type for entry in await harness.store.journal(entity=entity)]


@on_a_controlled_fleet
async def test_a_bug_in_a_command(
    harness: ControlledFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets 500 `Bug`; nothing has changed; others are decided in the same batch."""
    await harness.announced("vm", "other")
    before = await harness.scope()
    (event,) = before.events
    plant(monkeypatch, Approve, "vm")
    with pytest.raises(Bug, match="Nothing was changed; 'vm' is set aside") as caught:
        await harness.fleet.submit(Approve(scope="vm", events=(event,)))
    assert (caught.value.status, caught.value.code) == (500, "Bug")
    assert "ZeroDivision" not in caught.value.message  # which may be about other tenants
    after = await harness.scope()
    assert after.events == before.events
    assert after.machines == before.machines
    assert (await facts(harness, "vm"))[-1] is FactType.SET_ASIDE
    (entity,) = harness.fleet.set_aside.all()
    assert (entity.id, entity.reason) == ("Scope/vm", "Approve: ZeroDivisionError: a bug\\x00")
    (other,) = (await harness.scope("other")).events
    await harness.fleet.submit(Approve(scope="other", events=(other,)))
    assert harness.fleet.broken is None


@on_a_controlled_fleet
async def test_due_work_is_retried_with_back_off(
    harness: ControlledFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scope whose time cannot be advanced waits; every other one starts in time."""
    await harness.announced("vm", "other")
    plant(monkeypatch, AdvanceTime, "vm")
    await harness.fleet.advance(900)
    assert [impact.machine for impact in harness.driver.impacts] == ["other"]
    assert harness.fleet.set_aside.all()[0].attempts == 1
    await harness.fleet.advance(3600)
    assert 10 < harness.fleet.set_aside.all()[0].attempts < 30
    assert b'"Scheduled"' in (await harness.fleet.poll("vm")).body(NEWEST)  # polls are answered


@on_a_controlled_fleet
async def test_an_entity_that_stays_due_is_set_aside(
    harness: ControlledFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entity that is due, and does not change when told so, does not keep the writer busy."""
    await harness.announced("vm", "other")
    monkeypatch.setitem(engine._HANDLERS, AdvanceTime, lambda *_: None)
    await harness.fleet.advance(900)
    await harness.fleet.settled()
    assert [entity.id for entity in harness.fleet.set_aside.all()] == ["Scope/vm", "Scope/other"]
    monkeypatch.undo()
    await harness.fleet.advance(1)
    assert len(harness.driver.impacts) == 2


@pytest.mark.parametrize("released", ["by an operator", "by another version"])
async def test_a_release_tries_it_again(released: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is due is done at once after a release, and not before: no notice gets shorter."""
    store = ControlledStore()
    async with controlled_fleet(store) as harness:
        await harness.announced("vm")
        with monkeypatch.context() as patch:
            plant(patch, AdvanceTime, "vm")
            await harness.fleet.advance(901)
            assert not harness.driver.impacts
            if released == "by another version":
                patch.setattr(set_aside, "software", lambda: "0")
                await harness.fleet.advance(120)  # the next attempts
        if released == "by an operator":
            await harness.fleet.submit(Release(entity="Scope/vm"))
            await harness.fleet.settled()
            assert len(harness.driver.impacts) == 1
            assert (await facts(harness, "vm"))[-3] is FactType.RELEASED
    async with controlled_fleet(store) as harness:  # of the real version
        await harness.fleet.settled()
        assert not harness.fleet.set_aside.all()
        (event,) = (await harness.scope()).events.values()
        assert event.status is EventStatus.STARTED


async def test_it_stays_set_aside_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason, and the time of the next attempt, are stored."""
    store = ControlledStore()
    plant(monkeypatch, AdvanceTime, "vm")
    async with controlled_fleet(store) as harness:
        await harness.announced("vm")
        await harness.fleet.advance(900)
        before = harness.fleet.set_aside.all()
    async with controlled_fleet(store) as harness:
        assert harness.fleet.set_aside.all() == before


@on_a_controlled_fleet
async def test_a_report_of_a_driver_is_tried_again(
    harness: ControlledFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a driver reported is not lost, and the driver does not get the impact again (IL5)."""
    impact = await harness.rebooting()
    with monkeypatch.context() as patch:
        plant(patch, ReportImpact, "vm")
        harness.driver.finish()
        await harness.fleet.settled()
        await harness.fleet.writer.resume()  # as after a heartbeat that reports orphaned impacts
    assert harness.driver.impacts == [impact]
    harness.retry()
    await harness.fleet.settled()
    assert (await harness.operation()).status is OperationStatus.SUCCEEDED


@on_a_controlled_fleet
async def test_a_first_poll_that_meets_a_bug(
    harness: ControlledFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even then the poll is answered; polls that follow are not decided until the next retry."""
    await harness.fleet.submit(standalone())
    plant(monkeypatch, Poll, "vm")
    for _ in range(3):
        assert b'"Events":[]' in (await harness.fleet.poll("vm")).body(NEWEST)
    assert harness.fleet.set_aside.all()[0].attempts == 1
    await harness.fleet.advance(10)
    await harness.fleet.poll("vm")
    assert harness.fleet.set_aside.all()[0].attempts == 2


@on_a_controlled_fleet
async def test_a_value_that_cannot_be_stored(
    harness: ControlledFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that prevents the commit fails alone, and its neighbours in the batch do not."""
    await harness.announced("vm", "other")
    due = cascade.due

    def buggy(entity: Entity) -> float | None:
        if (
            isinstance(entity, Scope)
            and entity.id == "vm"
            and any(impact.in_progress for impact in entity.impacts.values())
        ):
            raise OverflowError("date value out of range")
        return due(entity)

    monkeypatch.setattr(cascade, "due", buggy)
    commands = [
        Approve(scope=name, events=tuple((await harness.scope(name)).events))
        for name in ("vm", "other")
    ]
    outcomes = await asyncio.gather(*map(harness.fleet.submit, commands), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Bug, type(None)]
    assert [impact.machine for impact in harness.driver.impacts] == ["other"]
    assert [entity.id for entity in harness.fleet.set_aside.all()] == ["Scope/vm"]


@on_a_controlled_fleet
async def test_a_release_of_what_is_not_set_aside(harness: ControlledFleet) -> None:
    """It is refused, whatever it names."""
    for name in ("Scope/vm", "nonsense", "Nothing/at all"):
        with pytest.raises(NotFound, match="is not set aside"):
            await harness.fleet.submit(Release(entity=name))


@asynccontextmanager
async def fleet_in(file: Path) -> AsyncIterator[Fleet]:
    """A running fleet in this file."""
    clock = VirtualClock(NOON)
    fleet = Fleet(SQLiteStore(file, reserved_bytes=4096), clock, simulated_driver(clock))
    await fleet.start()
    yield fleet
    await fleet.stop()


async def test_a_row_that_cannot_be_read(tmp_path: Path) -> None:
    """Its entity is set aside; the start, polls and due work of all others go on (IB1)."""
    file = tmp_path / "fleet.db"
    async with fleet_in(file) as fleet:
        for name in ("vm", "other"):
            await fleet.submit(standalone(name))
            await fleet.poll(name)
            await fleet.submit(restart(name))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE entity SET body = '{' WHERE id = 'vm'")
    async with fleet_in(file) as fleet:
        with pytest.raises(Bug):
            await fleet.submit(Poll(scope="vm"))
        (entity,) = fleet.set_aside.all()
        assert entity.id == "Scope/vm"
        assert "DecodeError" in entity.reason
        await fleet.advance(3600)
        other = await fleet.reader.read(Scope, "other")
        assert other
        assert not other.events
        assert 1 < fleet.set_aside.all()[0].attempts < 10  # with back-off, as all others
