"""Failures of the disk or a caller: a refused batch has no effect, and the store recovers."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairwarning.core.commands import Approve
from fairwarning.core.errors import Conflict, Unavailable
from fairwarning.core.model import Scope, ScopeKind
from fairwarning.service.clock import VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.store import files
from fairwarning.store.files import SqliteConnection, SqliteCursor
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch
from fairwarning.store.worker import StoreThread
from tests.fixtures.controlled_fleet import ControlledDriver
from tests.fixtures.fleet import NEWEST, NOON, restart, standalone
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until_async
from tests.store.batch_generator import BatchGenerator
from tests.store.conftest import on_open_store
from tests.store.test_opening import A, scope, small_store

Plan = dict[str, list[Callable[[], None]]]
"""What fails: functions to call before or after a statement."""


@pytest.fixture
def plan() -> Plan:
    """An empty plan, to which a test adds."""
    return {}


@pytest.fixture
def store(tmp_path: Path, plan: Plan) -> SQLiteStore:
    """A store whose statements fail as planned."""
    return small_store(tmp_path / "fleet.db", connect=lambda path: FailingConnection(path, plan))


class FailingConnection:
    """A connection on which chosen statements fail, before or after their execution."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self._inner = files.connect(path)
        self._plan = plan

    @property
    def total_changes(self) -> int:
        return self._inner.total_changes

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = (), /) -> SqliteCursor:
        for when in ("before", "after"):
            planned = self._plan.get(f"{when} {sql.split('(', maxsplit=1)[0]}")
            if when == "after":
                cursor = self._inner.execute(sql, parameters)
            if planned:
                planned.pop(0)()
        return cursor

    def set_progress_handler(self, handler: Callable[[], bool], steps: int, /) -> None:
        self._inner.set_progress_handler(handler, steps)

    def close(self) -> None:
        self._inner.close()


def failing(code: int) -> Callable[[], None]:
    """Return a function that fails as SQLite would."""

    def fail() -> None:
        error = sqlite3.OperationalError("planned")
        error.sqlite_errorcode = code
        raise error

    return fail


EIO = failing(sqlite3.SQLITE_IOERR_FSYNC)


@pytest.mark.parametrize(
    "statement",
    ["BEGIN IMMEDIATE", "UPDATE head SET position = ?, line = ?, machine = ?;", "COMMIT"],
)
@on_open_store
async def test_a_failed_commit_changes_nothing_and_can_be_repeated(
    store: SQLiteStore, plan: Plan, statement: str
) -> None:
    """`Unavailable`: the refused batch has no effect, and no transaction is left open."""
    await store.commit(Batch(1.0, {A: (None, scope())}))
    plan[f"before {statement}"] = [EIO]
    with pytest.raises(Unavailable) as failed:
        await store.commit(Batch(2.0, {A: (scope(), scope(2))}))
    assert failed.value.code == "StoreFailed"
    assert await store.load([A]) == {A: scope()}
    await store.commit(Batch(2.0, {A: (scope(), scope(2))}))
    assert await store.load([A]) == {A: scope(2)}


@on_open_store
async def test_a_commit_that_only_seems_to_have_failed_is_acknowledged(
    store: SQLiteStore, plan: Plan
) -> None:
    """After an error of the last write the outcome is unclear: the store looks, then answers."""
    await store.commit(Batch(1.0, {A: (None, scope())}))
    plan["after COMMIT"] = [EIO]
    await store.commit(Batch(2.0, {A: (scope(), scope(2))}))
    assert await store.load([A]) == {A: scope(2)}


def test_nothing_is_read_that_may_not_be_durable(store: SQLiteStore, plan: Plan) -> None:
    """A killed process may have written its log without a sync: it is synced first, or not read."""

    async def run() -> None:
        plan["before PRAGMA wal_checkpoint"] = [EIO]
        with pytest.raises(Unavailable, match="StoreFailed"):
            await store.open()
        await store.open()
        await store.close()

    asyncio.run(run())


@pytest.mark.spec("E9")
@pytest.mark.parametrize("statement", ["PRAGMA wal_checkpoint", "BEGIN EXCLUSIVE"])
@pytest.mark.parametrize("times", [1, 3])
def test_what_an_unclear_commit_has_stored_is_shown_and_carried_out(
    store: SQLiteStore, plan: Plan, statement: str, times: int
) -> None:
    """Its sender gets `StoreUnclear`. Nobody reads it until it is durable, and then at once."""

    async def run() -> None:
        driver = ControlledDriver()
        fleet = Fleet(store, VirtualClock(NOON), driver)
        await fleet.start()
        await fleet.submit(standalone())
        document = await fleet.poll("vm")
        await fleet.submit(restart())
        assert document.scope
        (event,) = document.scope.events
        plan["after COMMIT"] = [EIO]
        plan[f"before {statement}"] = [EIO] * times
        with pytest.raises(Unavailable) as unclear:
            await fleet.submit(Approve(scope="vm", events=(event,)))
        assert unclear.value.code == "StoreUnclear"
        await wait_until_async(lambda: driver.impacts, "the impact begins")
        assert b'"Started"' in document.body(NEWEST)
        driver.finish()
        await fleet.settled()
        assert not document.scope.events
        assert len(driver.impacts) == 1
        await fleet.stop()

    asyncio.run(run())


@on_open_store
async def test_a_connection_is_replaced_as_soon_as_possible(store: SQLiteStore, plan: Plan) -> None:
    """Every call raises an error until a new connection can be opened."""
    await store.commit(Batch(1.0, {A: (None, scope())}))
    plan["before COMMIT"] = [EIO]
    plan["before ROLLBACK"] = [EIO]
    plan["before BEGIN EXCLUSIVE"] = [EIO, EIO, EIO]
    for code in ("StoreUnclear", "StoreFailed"):
        with pytest.raises(Unavailable) as failed:
            await store.commit(Batch(2.0, {A: (scope(), scope(2))}))
        assert failed.value.code == code
    with pytest.raises(Unavailable):
        await store.load([A])
    assert await store.load([A]) == {A: scope()}
    await store.commit(Batch(2.0, {A: (scope(), scope(2))}))


@on_open_store
async def test_commits_are_refused_until_there_is_space(
    store: SQLiteStore, plan: Plan, tmp_path: Path
) -> None:
    """The current batch uses the reserved space; then `StoreFull`, while reads still work."""
    reserved = tmp_path / "fleet.db.ballast"
    full = failing(sqlite3.SQLITE_FULL)
    await store.commit(Batch(1.0, {A: (None, scope())}))
    plan["before COMMIT"] = [full]
    await store.commit(Batch(2.0, {A: (scope(), scope(2))}))  # on the second attempt
    assert not reserved.exists()
    reserved.mkdir()  # simulates a disk without space for the file
    with pytest.raises(Unavailable) as failed:
        await store.commit(Batch(3.0, {A: (scope(2), scope(3))}))
    assert failed.value.code == "StoreFull"
    assert await store.load([A]) == {A: scope(2)}
    reserved.rmdir()
    await store.commit(Batch(3.0, {A: (scope(2), scope(3))}))
    assert reserved.stat().st_size == 5000
    plan["before COMMIT"] = [full, full]
    with pytest.raises(Unavailable) as failed:
        await store.commit(Batch(4.0, {A: (scope(3), scope(4))}))
    assert failed.value.code == "StoreFull"
    write = failing(sqlite3.SQLITE_IOERR_WRITE)  # a quota, or the disk itself
    plan["before COMMIT"] = [write]
    await store.commit(Batch(4.0, {A: (scope(3), scope(4))}))
    plan["before COMMIT"] = [write, write]
    with pytest.raises(Unavailable) as failed:
        await store.commit(Batch(5.0, {A: (scope(4), scope(5))}))
    assert (failed.value.code, reserved.exists()) == ("StoreFailed", True)
    plan["before COMMIT"] = [full, EIO]
    with pytest.raises(Unavailable) as failed:
        await store.commit(Batch(5.0, {A: (scope(4), scope(5))}))
    assert failed.value.code == "StoreFailed"
    assert await store.load([A]) == {A: scope(4)}


@on_open_store
async def test_an_unpaired_surrogate_only_fails_its_own_batch(store: SQLiteStore) -> None:
    """IS2: invalid Unicode is refused with its own code, in an entity or in a line."""
    for invalid in (scope(group="\udc80"), Scope(id="\udc80", kind=ScopeKind.STANDALONE)):
        with pytest.raises(Conflict) as refused:
            await store.commit(Batch(1.0, {(Scope, invalid.id): (None, invalid)}))
        assert refused.value.code == "BadText"
    await store.commit(Batch(1.0, {A: (None, scope())}))


@on_open_store
async def test_a_cancelled_caller_leaves_the_store_consistent(store: SQLiteStore) -> None:
    """Its batch is stored completely or not at all, and the next one is served."""
    generator = BatchGenerator()
    for number in range(20):
        task = asyncio.create_task(store.commit(generator.random_batch(20)))
        await asyncio.sleep(number / 10_000)
        task.cancel()
        await asyncio.wait([task])
    assert await store.load(generator.entities) == generator.entities  # a job that started finishes
    await store.commit(generator.random_batch(5))


def test_a_store_outlives_its_event_loop(tmp_path: Path) -> None:
    """If a loop is closed before it gets an answer, only that answer is lost."""
    store = small_store(tmp_path / "fleet.db")
    release, began = threading.Event(), threading.Event()

    def slow(_: SqliteConnection) -> None:
        began.set()
        release.wait(LIMIT_SECONDS)

    async def leave() -> None:
        await store.open()
        task = asyncio.create_task(store._read(slow))
        await asyncio.to_thread(began.wait, LIMIT_SECONDS)
        task.cancel()

    async def resume() -> None:
        await store.commit(Batch(1.0, {A: (None, scope())}))
        await store.close()

    asyncio.run(leave())
    release.set()
    asyncio.run(resume())


async def test_the_thread_outlives_every_error() -> None:
    """Neither a job nor the work after one ends the thread on which all others wait (IB6)."""
    thread = StoreThread("test")

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await thread.run(fail)
    await thread.run(lambda: None, fail)
    assert await asyncio.wait_for(thread.run(lambda: "done"), LIMIT_SECONDS) == "done"
    await thread.stop()
