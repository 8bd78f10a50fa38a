"""Retention: what has ended is dropped by age, in every store, without delaying commands."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairwarning.core import cascade
from fairwarning.core.commands import (
    AbortRollout,
    Command,
    Deallocate,
    Delete,
    DropOperation,
    Restart,
    StartRollout,
)
from fairwarning.core.model import (
    Entity,
    Event,
    ImpactKind,
    Lane,
    Operation,
    OperationStatus,
    Ref,
    Rollout,
    Scope,
)
from fairwarning.service import retention as module
from fairwarning.service.clock import VirtualClock
from fairwarning.service.config.settings import JournalSettings, OperationSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.retention import Retention
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, Store
from tests.fixtures.controlled_fleet import ControlledStore
from tests.fixtures.fleet import NOON, FleetHarness, all_entities, simulated_driver, standalone
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import wait_until, wait_until_async

DAY_SECONDS = 24 * 3600.0
Make = Callable[[Path], Store]
STORES: dict[str, Make] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda folder: SQLiteStore(folder / "fleet.db", reserved_bytes=4096),
}
each_store = pytest.mark.parametrize("make", STORES.values(), ids=STORES)


def retention(fleet: Fleet, *, lines: int = 0, operations: int = 7) -> Retention:
    """Return the retention of a fleet with these settings, in days."""
    return Retention(
        fleet, JournalSettings(keep_days=lines), OperationSettings(keep_days=operations)
    )


class OldFleet(FleetHarness):
    """A fleet whose old data can be dropped."""

    def drop_old(self, *, lines: int = 0, operations: int = 7) -> None:
        self.run(retention(self.fleet, lines=lines, operations=operations).drop_old())

    def stored(self, kind: type[Entity]) -> list[str]:
        entities = self.run(all_entities(self.store))
        return [name for known, name in entities if known is kind]

    def has_operation(self, name: str) -> bool:
        return self.run(self.fleet.reader.read(Operation, name)) is not None


@pytest.mark.spec("E11")
def test_what_only_a_wrong_clock_made_old_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fleet time is ahead of wall time after a clock that was wrong for long is set right."""
    with OldFleet() as harness:
        harness.make_enabled("vm")
        harness.operate(Restart, "vm", "vm")
        harness.approve("vm")
        harness.advance(9 * DAY_SECONDS)
        (name,) = harness.stored(Operation)
        for ahead, kept in ((3 * DAY_SECONDS, True), (0, False)):
            monkeypatch.setattr(harness.fleet.clock, "ahead_seconds", lambda ahead=ahead: ahead)
            harness.drop_old(lines=7)
            assert harness.has_operation(name) is kept
            assert (len(harness.journal()) > 1) is kept


@each_store
def test_an_operation_is_dropped_when_its_end_is_old(make: Make, tmp_path: Path) -> None:
    """Not a second before; its key then starts a new operation (IR1, IC2)."""
    with OldFleet(make(tmp_path)) as harness:
        harness.make_enabled("vm")
        harness.operate(Restart, "vm", "vm")
        harness.approve("vm")
        harness.advance(60)
        assert harness.operation("op").ended_at == NOON + 60
        harness.advance(7 * DAY_SECONDS)
        harness.drop_old()
        harness.operate(Restart, "vm", "vm")
        assert len(harness.driver.impacts) == 1
        harness.advance(1)
        harness.drop_old()
        assert not harness.has_operation("op")
        assert (Operation, "op") not in harness.fleet.reader.cache
        harness.operate(Restart, "vm", "vm")
        assert len(harness.driver.impacts) == 2


@each_store
def test_a_rollout_is_dropped_with_all_its_lanes(make: Make, tmp_path: Path) -> None:
    """Also with the lanes that it never started because it was aborted."""
    names = [f"vm{n:03}" for n in range(150)]
    with OldFleet(make(tmp_path)) as harness:
        for name in names:
            harness.standalone(name)
        for rollout in ("aborted", "done"):
            harness.do(StartRollout(rollout=rollout, scopes=tuple(names), kind=ImpactKind.REBOOT))
            if rollout == "aborted":
                harness.do(AbortRollout(rollout=rollout))
            harness.advance(3600)
        assert len(harness.stored(Lane)) == 140
        harness.advance(7 * DAY_SECONDS - 3600)
        harness.drop_old()
        assert harness.stored(Rollout) == ["done"]
        harness.advance(3600)
        harness.drop_old()
        assert [*harness.stored(Lane), *harness.stored(Rollout), *harness.stored(Operation)] == []
        harness.do(StartRollout(rollout="done", scopes=tuple(names), kind=ImpactKind.REBOOT))


def test_zero_days_keep_everything() -> None:
    """Of the journal and of operations."""
    with OldFleet() as harness:
        harness.standalone("vm")
        harness.operate(Deallocate, "vm", "vm")
        harness.advance(365 * DAY_SECONDS)
        lines = harness.journal()
        harness.drop_old(lines=0, operations=0)
        assert harness.has_operation("op")
        assert harness.journal() == lines
        harness.drop_old(lines=365, operations=365)
        assert harness.has_operation("op")


@each_store
def test_removals_are_forgotten_after_an_hour(make: Make, tmp_path: Path) -> None:
    """Other processes learn about them until then; a data folder keeps them with their lines."""
    with OldFleet(make(tmp_path)) as harness:
        harness.standalone("vm")
        harness.operate(Delete, "vm", "vm")
        harness.advance(60)
        pass_by = retention(harness.fleet, lines=1, operations=1).drop_old

        def feed() -> list[str]:
            changes = harness.run(harness.store.changes_since(0, 99))
            return [change.scope for change in changes]

        harness.advance(2 * DAY_SECONDS)
        harness.run(pass_by())
        assert feed() == ["vm"]
        harness.advance(3599)
        harness.run(pass_by())
        assert feed() == ["vm"]
        harness.advance(1)
        harness.run(pass_by())
        assert feed() == []


async def test_commands_are_decided_while_old_operations_are_dropped() -> None:
    """A command waits for one small batch of drops, not for all of them."""
    store = MemoryStore()
    clock = VirtualClock(NOON + 30 * DAY_SECONDS)
    fleet = Fleet(store, clock, simulated_driver(clock))
    await fleet.start()
    old: dict[Ref, tuple[Entity | None, Entity | None]] = {
        (Operation, f"o{n}"): (
            None,
            Operation(
                id=f"o{n}", kind="Restart", actor="operator", accepted_at=NOON, version=1,
                status=OperationStatus.SUCCEEDED, ended_at=NOON,
            ),
        )
        for n in range(2000)
    }  # fmt: skip
    await store.commit(Batch(NOON, old))
    dropping = asyncio.create_task(retention(fleet).drop_old())
    await wait_until_async(lambda: fleet._committer.commits)
    await fleet.submit(standalone("vm"))
    left = await store.ended_entities(clock.now(), 9999)
    assert len(left) > 1000
    await dropping
    assert await store.ended_entities(clock.now(), 9999) == []
    await fleet.stop()


async def test_retention_continues_when_the_store_is_available_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is tried again after an hour, by the fleet's clock."""
    store = ControlledStore()
    clock = VirtualClock(NOON)
    fleet = Fleet(store, clock, simulated_driver(clock))
    await fleet.start()
    await fleet.submit(standalone("vm"))
    await fleet.submit(Deallocate(scope="vm", operation="op", machines=("vm",)))
    await fleet.advance(8 * DAY_SECONDS)
    store.down = {"commit"}
    running = asyncio.create_task(retention(fleet).run())
    await wait_until_async(lambda: "cannot drop old data" in caplog.text)
    assert await fleet.reader.read(Operation, "op") is not None
    store.down = set()
    await fleet.advance(3600)
    await wait_until_async(lambda: (Operation, "op") not in store._entities)
    running.cancel()
    await asyncio.wait([running])
    await fleet.stop()


@pytest.mark.spec("X7")
@each_store
def test_what_cannot_be_dropped_keeps_nothing_else(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither an operation that meets a bug nor a part that fails; the health says so (IB1)."""
    decide: Callable[..., Any] = cascade.run

    def buggy(command: Command, *rest: object, **named: object) -> object:
        if isinstance(command, DropOperation) and command.operation.startswith("bad"):
            raise ZeroDivisionError("a bug")
        return decide(command, *rest, **named)

    monkeypatch.setattr(cascade, "run", buggy)
    monkeypatch.setattr(module, "_DROPPED_AT_ONCE", 1)
    with OldFleet(make(tmp_path)) as harness:
        for name in ("bad1", "bad2", "op"):
            harness.standalone(name)
            harness.operate(Deallocate, name, name, name=name)
        harness.advance(9 * DAY_SECONDS)
        monkeypatch.setattr(harness.store, "drop_old_lines", KeyError("a row"))
        dropping = retention(harness.fleet, lines=1)
        harness.run(dropping.drop_old())
        assert harness.stored(Operation) == ["bad1", "bad2"]
        assert "2 operations or rollouts, the first Operation 'bad1'" in caplog.text
        assert "2 operations or rollouts" in dropping.health().problem
        monkeypatch.undo()
        harness.run(dropping.drop_old())
        assert not harness.stored(Operation)
        assert harness.journal()[0].line.at > NOON + 8 * DAY_SECONDS
        assert not dropping.health().problem


def test_deliveries_of_events_that_ended_elsewhere_are_forgotten() -> None:
    """No client reads the scope here, so the process does not hear about its changes."""
    with OldFleet() as harness:
        harness.make_enabled("vm", "db")
        for name in ("vm", "db"):
            harness.operate(Restart, name, name, name=f"restart {name}")
        ended, live = harness.only_event("vm"), harness.only_event("db")
        harness.approve("vm")
        harness.advance(100)
        _show(harness.fleet, harness.scope("vm"), ended)
        _show(harness.fleet, harness.scope("db"), live)
        harness.drop_old()
        assert harness.fleet.deliveries.scopes() == ["db"]


def _show(fleet: Fleet, scope: Scope, event: Event) -> None:
    fleet.deliveries._delivered[scope.id] = {event.id: {scope.id}}


@pytest.mark.spec("O2", "O5")
@pytest.mark.parametrize("memory", [True, False])
def test_the_program_keeps_to_its_settings(tmp_path: Path, *, memory: bool) -> None:
    """`--memory` too: old operations and lines are gone, and a repeated key starts anew."""
    fleet = "[operations]\nkeep_days = 1\n[journal]\nkeep_days = 1\n[[machine]]\nname = 'vm'\n"
    words = ["--clock", "virtual", *(["--memory"] if memory else [])]
    with ServiceProcess(tmp_path / "data", *words, fleet=fleet) as service:
        key = {"Idempotency-Key": "nightly"}
        first = service.api("POST", "/api/machines/vm/deallocate", {}, headers=key).json
        service.advance(60)
        assert service.ok("GET", "/api/operations/nightly")["status"] == "Succeeded"
        service.advance(2 * DAY_SECONDS)
        wait_until(lambda: service.api("GET", "/api/operations/nightly").status == 404)
        wait_until(lambda: service.ok("GET", "/api/journal")["lines"] == [])
        again = service.api("POST", "/api/machines/vm/start", {}, headers=key).json
        assert again["operation"]["accepted_at"] > first["operation"]["accepted_at"]
