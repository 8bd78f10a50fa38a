"""The file: who may open it, what it may be, and what happens when the disk or a caller fails."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairwarning.core.errors import Broken, Conflict, FairwarningError, Unavailable
from fairwarning.core.model import Ref, Scope, ScopeKind
from fairwarning.store import files
from fairwarning.store.files import Connection, Cursor
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, Store
from tests.store.author import Author
from tests.store.conftest import play

A: Ref = (Scope, "a")


def scope(version: int = 1, group: str = "") -> Scope:
    """A scope in some version."""
    return Scope(id="a", kind=ScopeKind.STANDALONE, version=version, group=group)


def small(path: Path, **how: Any) -> SQLiteStore:  # noqa: ANN401
    """A store with hardly any ballast."""
    return SQLiteStore(path, ballast_bytes=5000, **how)


def refusal(store: Store) -> FairwarningError:
    """Why the store does not open."""
    with pytest.raises(FairwarningError) as refused:
        asyncio.run(store.open())
    return refused.value


# --- Opening --------------------------------------------------------------------------------------


def test_everything_is_made_for_its_owner_only(tmp_path: Path) -> None:
    """The folder, the database, its log and its ballast; whatever the umask."""
    path = tmp_path / "data" / "fleet.db"

    async def story(store: Store) -> None:
        await store.commit(Batch(1.0, {A: (None, scope())}))
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        assert modes == dict.fromkeys(("fleet.db", "fleet.db-wal", "fleet.db.ballast"), 0o600)
        assert path.parent.stat().st_mode & 0o777 == 0o700

    umask = os.umask(0)
    try:
        play(small(path), story)
    finally:
        os.umask(umask)


def test_a_folder_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    """It may be shared on purpose."""
    tmp_path.chmod(0o755)
    play(small(tmp_path / "fleet.db"), lambda store: store.commit(Batch(1.0)))  # type: ignore[arg-type,return-value]
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_the_settings_that_durability_rests_on(tmp_path: Path) -> None:
    """E9: a write-ahead log, synced at each commit, and a lock nobody else gets past."""
    store = small(tmp_path / "fleet.db")
    found = {}

    def look(connection: Connection) -> None:
        for name in ("journal_mode", "synchronous", "locking_mode"):
            found[name] = connection.execute(f"PRAGMA {name}").fetchone()[0]

    async def story(_: Store) -> None:
        await store._read(look)

    play(store, story)
    assert found == {"journal_mode": "wal", "synchronous": 2, "locking_mode": "exclusive"}
    assert store.sqlite_version == sqlite3.sqlite_version


OPEN_IT = """
import asyncio, sys
from fairwarning.core.errors import Unavailable
from fairwarning.store.sqlite import SQLiteStore
try:
    asyncio.run(SQLiteStore(sys.argv[1]).open())
except Unavailable as error:
    print(error)
"""


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """At once, saying which file and what to do; the first one does not even notice."""
    path = tmp_path / "fleet.db"

    async def story(store: Store) -> None:
        command = [sys.executable, "-c", OPEN_IT, str(path)]
        said = await asyncio.to_thread(subprocess.check_output, command, text=True)
        assert said.startswith("StoreInUse: ")
        assert str(path) in said
        assert "stop it, or name another file" in said
        await store.commit(Batch(1.0, {A: (None, scope())}))
        error = await asyncio.to_thread(refusal, small(path))  # nor in this process
        assert error.code == "StoreInUse"
        await store.commit(Batch(1.0, {A: (scope(), scope(2))}))

    play(small(path), story)


def test_a_killed_process_leaves_no_lock_behind(tmp_path: Path) -> None:
    """E9: whoever starts next opens the file, and finds what was acknowledged."""
    path = tmp_path / "fleet.db"
    code = f"""
import asyncio, os, signal
from fairwarning.core.model import *
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch
async def main():
    store = SQLiteStore({str(path)!r}, ballast_bytes=4096)
    await store.open()
    scope = Scope(id="a", kind=ScopeKind.STANDALONE, version=1)
    await store.commit(Batch(1.0, {{(Scope, "a"): (None, scope)}}))
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode < 0

    async def story(store: Store) -> None:
        assert await store.load([A]) == {A: scope()}

    play(small(path), story)


def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    """The error says what to name instead."""
    error = refusal(small(tmp_path))
    assert isinstance(error, Unavailable)
    assert (error.code, "name a file in it" in error.message) == ("NotAStore", True)


@pytest.mark.parametrize("content", [b"precious text" * 500, b"SQLite format 3\0" + bytes(5000)])
def test_what_is_not_a_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    """Refused, and not a byte of it changed."""
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    assert refusal(small(path)).code in {"NotAStore", "StoreCorrupt"}
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """Refused, and not a byte of it changed."""
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url)")
    connection.close()
    content = path.read_bytes()
    error = refusal(small(path))
    assert (error.code, "another program" in error.message) == ("NotAStore", True)
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A clear error, no traceback; and the store can be opened when the reason is gone."""
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    store = small(blocked / "fleet.db")
    error = refusal(store)
    assert (error.code, str(blocked) in error.message) == ("StoreFailed", True)
    blocked.unlink()
    play(store, lambda store: store.commit(Batch(1.0)))  # type: ignore[arg-type,return-value]


def test_damage_is_named(tmp_path: Path) -> None:
    """IS4: a damaged page is `Broken`, when it is read; what can be read still is."""
    path = tmp_path / "fleet.db"
    author = Author()

    async def fill(store: Store) -> None:
        await store.commit(Batch(1.0, {A: (None, scope())}))
        await store.commit(author.random_batch(20))

    async def read(store: Store) -> None:
        with pytest.raises(Broken) as broken:
            await store.journal()
        assert broken.value.code == "StoreCorrupt"
        assert "restore a copy" in broken.value.message
        assert await store.load([A]) == {A: scope()}

    play(small(path), fill)
    connection = sqlite3.connect(path)
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    query = "SELECT rootpage FROM sqlite_master WHERE name = 'journal'"
    (root,) = connection.execute(query).fetchone()
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    play(small(path), read)


# --- Failing --------------------------------------------------------------------------------------


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

    def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = (), /) -> Cursor:
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
    "statement", ["BEGIN IMMEDIATE", "UPDATE head SET position = ?, line = ?;", "COMMIT"]
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
        plan["before COMMIT"] = [full, EIO]
        with pytest.raises(Unavailable) as failed:
            await store.commit(Batch(4.0, {A: (scope(3), scope(4))}))
        assert failed.value.code == "StoreFailed"
        assert await store.load([A]) == {A: scope(3)}

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

    def slow(_: Connection) -> None:
        began.set()
        release.wait(10)

    async def leave() -> None:
        await store.open()
        task = asyncio.create_task(store._read(slow))
        await asyncio.to_thread(began.wait, 10)
        task.cancel()

    async def go_on() -> None:
        await store.commit(Batch(1.0, {A: (None, scope())}))
        await store.close()

    asyncio.run(leave())
    release.set()
    asyncio.run(go_on())
