"""When the disk fails, or a caller does: what was refused never was, and the store works again."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairwarning.core.errors import Conflict, Unavailable
from fairwarning.core.model import Ref, Scope, ScopeKind
from fairwarning.store import files
from fairwarning.store.files import SqliteConnection, SqliteCursor
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, Store
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.store.author import Author
from tests.store.conftest import play

A: Ref = (Scope, "a")


def scope(version: int = 1, group: str = "") -> Scope:
    """A scope in some version."""
    return Scope(id="a", kind=ScopeKind.STANDALONE, version=version, group=group)


def small(path: Path, **how: Any) -> SQLiteStore:  # noqa: ANN401
    """A store with hardly any ballast."""
    return SQLiteStore(path, reserved_bytes=5000, **how)


class Unsteady:
    """A connection on which chosen statements fail, before or after they are carried out."""

    def __init__(self, path: Path, plan: dict[str, list[Callable[[], None]]]) -> None:
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

    def close(self) -> None:
        self._inner.close()


def failing(code: int) -> Callable[[], None]:
    """Fails as SQLite would."""

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
def test_a_failed_commit_changes_nothing_and_can_be_repeated(
    tmp_path: Path, statement: str
) -> None:
    """`Unavailable`: nothing that was refused has taken effect, and no transaction is left open."""
    plan: dict[str, list[Callable[[], None]]] = {}
    store = small(tmp_path / "fleet.db", connect=lambda path: Unsteady(path, plan))

    async def story(_: Store) -> None:
        await store.commit(Batch(1.0, {A: (None, scope())}))
        plan[f"before {statement}"] = [EIO]
        with pytest.raises(Unavailable) as failed:
            await store.commit(Batch(2.0, {A: (scope(), scope(2))}))
        assert failed.value.code == "StoreFailed"
        assert await store.load([A]) == {A: scope()}
        await store.commit(Batch(2.0, {A: (scope(), scope(2))}))
        assert await store.load([A]) == {A: scope(2)}

    play(store, story)


def test_a_commit_that_only_seems_to_have_failed_is_acknowledged(tmp_path: Path) -> None:
    """An error after the last write leaves open what is on the disk: we look, and then say."""
    plan: dict[str, list[Callable[[], None]]] = {}
    store = small(tmp_path / "fleet.db", connect=lambda path: Unsteady(path, plan))

    async def story(_: Store) -> None:
        await store.commit(Batch(1.0, {A: (None, scope())}))
        plan["after COMMIT"] = [EIO]
        await store.commit(Batch(2.0, {A: (scope(), scope(2))}))
        assert await store.load([A]) == {A: scope(2)}
        plan["after COMMIT"] = [EIO]
        plan["before PRAGMA wal_checkpoint"] = [EIO]
        with pytest.raises(Unavailable):  # it is there, but nobody knows for how long
            await store.commit(Batch(3.0, {A: (scope(2), scope(3))}))

    play(store, story)


def test_a_connection_that_cannot_be_replaced_is_tried_for_again(tmp_path: Path) -> None:
    """While it fails everything says so; when it no longer does, everything works."""
    plan: dict[str, list[Callable[[], None]]] = {}
    store = small(tmp_path / "fleet.db", connect=lambda path: Unsteady(path, plan))

    async def story(_: Store) -> None:
        await store.commit(Batch(1.0, {A: (None, scope())}))
        plan["before COMMIT"] = [EIO]
        plan["before ROLLBACK"] = [EIO]
        plan["before BEGIN EXCLUSIVE"] = [EIO, EIO, EIO]
        for _attempt in range(2):
            with pytest.raises(Unavailable) as failed:
                await store.commit(Batch(2.0, {A: (scope(), scope(2))}))
            assert failed.value.code == "StoreFailed"
        with pytest.raises(Unavailable):
            await store.load([A])
        assert await store.load([A]) == {A: scope()}
        await store.commit(Batch(2.0, {A: (scope(), scope(2))}))

    play(store, story)


def test_no_space_is_refused_until_there_is_some(tmp_path: Path) -> None:
    """The batch in flight is finished with the ballast's space; then `StoreFull`, reads go on."""
    plan: dict[str, list[Callable[[], None]]] = {}
    store = small(tmp_path / "fleet.db", connect=lambda path: Unsteady(path, plan))
    ballast = tmp_path / "fleet.db.ballast"
    full = failing(sqlite3.SQLITE_FULL)

    async def story(_: Store) -> None:
        await store.commit(Batch(1.0, {A: (None, scope())}))
        plan["before COMMIT"] = [full]
        await store.commit(Batch(2.0, {A: (scope(), scope(2))}))  # on the second attempt
        assert not ballast.exists()
        ballast.mkdir()  # stands for a disk that has no room for it
        with pytest.raises(Unavailable) as failed:
            await store.commit(Batch(3.0, {A: (scope(2), scope(3))}))
        assert failed.value.code == "StoreFull"
        assert await store.load([A]) == {A: scope(2)}
        ballast.rmdir()
        await store.commit(Batch(3.0, {A: (scope(2), scope(3))}))
        assert ballast.stat().st_size == 5000
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
        assert (failed.value.code, ballast.exists()) == ("StoreFailed", True)
        plan["before COMMIT"] = [full, EIO]
        with pytest.raises(Unavailable) as failed:
            await store.commit(Batch(5.0, {A: (scope(4), scope(5))}))
        assert failed.value.code == "StoreFailed"
        assert await store.load([A]) == {A: scope(4)}

    play(store, story)


def test_half_a_character_spoils_its_own_batch_only(tmp_path: Path) -> None:
    """IS2: text that is not Unicode is refused as what it is, in an entity or in a line."""

    async def story(store: Store) -> None:
        for wrong in (scope(group="\udc80"), Scope(id="\udc80", kind=ScopeKind.STANDALONE)):
            with pytest.raises(Conflict) as refused:
                await store.commit(Batch(1.0, {(Scope, wrong.id): (None, wrong)}))
            assert refused.value.code == "BadText"
        await store.commit(Batch(1.0, {A: (None, scope())}))

    play(small(tmp_path / "fleet.db"), story)


def test_a_cancelled_caller_leaves_the_store_sound(tmp_path: Path) -> None:
    """Its batch is there or not, whole, and the next one is served."""
    author = Author()

    async def story(store: Store) -> None:
        for number in range(20):
            task = asyncio.create_task(store.commit(author.random_batch(20)))
            await asyncio.sleep(number / 10_000)
            task.cancel()
            await asyncio.wait([task])
        assert await store.load(author.entities) == author.entities  # a job that began, ends
        await store.commit(author.random_batch(5))

    play(small(tmp_path / "fleet.db"), story)


def test_a_store_outlives_its_event_loop(tmp_path: Path) -> None:
    """A loop that is closed with an answer on its way costs that answer and nothing else."""
    store = small(tmp_path / "fleet.db")
    release, began = threading.Event(), threading.Event()

    def slow(_: SqliteConnection) -> None:
        began.set()
        release.wait(LIMIT_SECONDS)

    async def leave() -> None:
        await store.open()
        task = asyncio.create_task(store._read(slow))
        await asyncio.to_thread(began.wait, LIMIT_SECONDS)
        task.cancel()

    async def go_on() -> None:
        await store.commit(Batch(1.0, {A: (None, scope())}))
        await store.close()

    asyncio.run(leave())
    release.set()
    asyncio.run(go_on())
