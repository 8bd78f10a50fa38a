"""Opening the database file: locks, permissions, and files that are not a store."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairwarning.core.errors import FairwarningError, StoreDamaged, Unavailable
from fairwarning.core.model import Ref, Scope, ScopeKind
from fairwarning.store.files import SqliteConnection
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, Store
from tests.store.batch_generator import BatchGenerator
from tests.store.conftest import run_scenario

A: Ref = (Scope, "a")


def scope(version: int = 1, group: str = "") -> Scope:
    """Return a scope with this version."""
    return Scope(id="a", kind=ScopeKind.STANDALONE, version=version, group=group)


def small_store(path: Path, **options: Any) -> SQLiteStore:  # noqa: ANN401
    """Return a store with little reserved space."""
    return SQLiteStore(path, reserved_bytes=5000, **options)


async def create(store: Store) -> None:
    """Commit the first version."""
    await store.commit(Batch(1.0, {A: (None, scope())}))


async def change(store: Store) -> None:
    """Commit the second version."""
    await store.commit(Batch(1.0, {A: (scope(), scope(2))}))


async def check_changed(store: Store) -> None:
    """Check that the second version is there."""
    assert await store.load([A]) == {A: scope(2)}


def refusal(store: Store) -> FairwarningError:
    """Return the error with which the store does not open."""
    with pytest.raises(FairwarningError) as refused:
        asyncio.run(store.open())
    return refused.value


def test_all_files_are_accessible_to_their_owner_only(tmp_path: Path) -> None:
    """The folder, the database, its log and its reserved space, whatever the umask."""
    path = tmp_path / "data" / "fleet.db"

    async def scenario(store: Store) -> None:
        await create(store)
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        assert modes == dict.fromkeys(("fleet.db", "fleet.db-wal", "fleet.db.ballast"), 0o600)
        assert path.parent.stat().st_mode & 0o777 == 0o700

    umask = os.umask(0)
    try:
        run_scenario(small_store(path), scenario)
    finally:
        os.umask(umask)


def test_an_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    """It may be shared on purpose."""
    tmp_path.chmod(0o755)
    run_scenario(small_store(tmp_path / "fleet.db"), create)
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_the_settings_for_durability(tmp_path: Path) -> None:
    """E9: a write-ahead log, synced at each commit, and an exclusive lock."""
    store = small_store(tmp_path / "fleet.db")
    settings = {}

    def read_settings(connection: SqliteConnection) -> None:
        for name in ("journal_mode", "synchronous", "locking_mode"):
            settings[name] = connection.execute(f"PRAGMA {name}").fetchone()[0]

    async def scenario(_: Store) -> None:
        await store._read(read_settings)

    run_scenario(store, scenario)
    assert settings == {"journal_mode": "wal", "synchronous": 2, "locking_mode": "exclusive"}
    assert store.sqlite_version == sqlite3.sqlite_version


OPEN_STORE = """
import asyncio, sys
from fairwarning.core.errors import Unavailable
from fairwarning.store.sqlite import SQLiteStore
try:
    asyncio.run(SQLiteStore(sys.argv[1]).open())
except Unavailable as error:
    print(error)
"""


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """At once, with the file and what to do; the first process is not affected."""
    path = tmp_path / "fleet.db"

    async def scenario(store: Store) -> None:
        command = [sys.executable, "-c", OPEN_STORE, str(path)]
        output = await asyncio.to_thread(subprocess.check_output, command, text=True)
        assert output.startswith("StoreInUse: ")
        assert str(path) in output
        assert "stop it, or name another file" in output
        await create(store)
        error = await asyncio.to_thread(refusal, small_store(path))  # nor in this process
        assert error.code == "StoreInUse"
        await change(store)

    run_scenario(small_store(path), scenario)


def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    """The error says what to name instead."""
    error = refusal(small_store(tmp_path))
    assert isinstance(error, Unavailable)
    assert (error.code, "name a file in it" in error.message) == ("NotAStore", True)


@pytest.mark.parametrize("content", [b"precious text" * 500, b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_not_a_database_is_left_unchanged(tmp_path: Path, content: bytes) -> None:
    """It is refused."""
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    assert refusal(small_store(path)).code in {"NotAStore", "StoreCorrupt"}
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_the_database_of_another_program_is_left_unchanged(tmp_path: Path) -> None:
    """It is refused."""
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url)")
    connection.close()
    content = path.read_bytes()
    error = refusal(small_store(path))
    assert (error.code, "another program" in error.message) == ("NotAStore", True)
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    """A clear error, no traceback; the store can be opened once the cause is gone."""
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    store = small_store(blocked / "fleet.db")
    error = refusal(store)
    assert (error.code, str(blocked) in error.message) == ("StoreFailed", True)
    blocked.unlink()
    run_scenario(store, create)


def test_a_damaged_page_is_reported(tmp_path: Path) -> None:
    """IS4: `StoreDamaged` when it is read; other pages can still be read."""
    path = tmp_path / "fleet.db"
    generator = BatchGenerator()

    async def fill(store: Store) -> None:
        await create(store)
        await store.commit(generator.random_batch(20))

    async def read(store: Store) -> None:
        with pytest.raises(StoreDamaged) as broken:
            await store.journal()
        assert broken.value.code == "StoreCorrupt"
        assert "restore a copy" in broken.value.message
        assert await store.load([A]) == {A: scope()}

    run_scenario(small_store(path), fill)
    connection = sqlite3.connect(path)
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    query = "SELECT rootpage FROM sqlite_master WHERE name = 'journal'"
    (root,) = connection.execute(query).fetchone()
    connection.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    run_scenario(small_store(path), read)


@pytest.mark.parametrize("left", ["-wal", ".ballast"])
@pytest.mark.parametrize("empty", [True, False], ids=["empty", "missing"])
def test_a_fleet_whose_database_is_lost_is_not_replaced(
    tmp_path: Path, left: str, empty: bool
) -> None:
    """An empty or missing file beside what a fleet has left is refused, and nothing is changed."""
    path = tmp_path / "fleet.db"
    (tmp_path / f"fleet.db{left}").write_bytes(b"content")
    if empty:
        path.write_bytes(b"")
    error = refusal(small_store(path))
    assert error.code == "StoreLost"
    assert f"{path} is missing or empty, but fleet.db{left} of a fleet is there" in error.message
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == len(b"content")


def test_an_empty_database_of_a_start_that_was_interrupted_is_used(tmp_path: Path) -> None:
    """The first start was killed before it created the tables."""
    (tmp_path / "fleet.db").write_bytes(b"")
    run_scenario(small_store(tmp_path / "fleet.db"), create)


@pytest.mark.parametrize("lost", ["fleet.db", "fleet.db-wal"])
def test_a_file_that_is_lost_while_it_is_in_use_takes_no_writes(tmp_path: Path, lost: str) -> None:
    """Reads go on, and writes too once the file is back; nothing acknowledged is lost."""
    path = tmp_path / "fleet.db"

    async def scenario(store: Store) -> None:
        await create(store)
        (tmp_path / lost).rename(tmp_path / "away")
        for _ in range(2):
            with pytest.raises(Unavailable) as refused:
                await change(store)
            assert refused.value.code == "StoreLost"
            assert str(tmp_path / lost) in refused.value.message
            (tmp_path / lost).write_bytes(b"")  # replaced, the second time
        assert await store.load([A]) == {A: scope()}
        (tmp_path / "away").rename(tmp_path / lost)
        await change(store)

    run_scenario(small_store(path), scenario)

    run_scenario(small_store(path), check_changed)


@pytest.mark.parametrize("shortened", ["fleet.db", "fleet.db-wal"])
def test_a_file_that_is_shortened_while_it_is_in_use_takes_no_writes(
    tmp_path: Path, shortened: str
) -> None:
    """Nothing is acknowledged that the next process would not find."""

    async def scenario(store: Store) -> None:
        await create(store)
        size = (tmp_path / shortened).stat().st_size
        os.truncate(tmp_path / shortened, size - 1)
        for _ in range(2):
            for write in (change(store), store.record_polls({"a": 1.0})):
                with pytest.raises(Unavailable, match="was shortened by another") as refused:
                    await write
                assert refused.value.code == "StoreLost"
                assert str(tmp_path / shortened) in refused.value.message

    run_scenario(small_store(tmp_path / "fleet.db"), scenario)


def test_the_store_itself_may_shorten_its_log(tmp_path: Path) -> None:
    """It does so when it opens a connection; a log that begins anew keeps its length."""
    store = small_store(tmp_path / "fleet.db")
    sizes = []

    async def scenario(_: Store) -> None:
        await create(store)
        for moment in range(400):
            await store.record_polls({"a": float(moment)})
            sizes.append((tmp_path / "fleet.db-wal").stat().st_size)
        await store._thread().run(store._drop)
        await change(store)

    run_scenario(store, scenario)
    assert sizes == sorted(sizes)
    assert len(set(sizes)) < len(sizes) / 2  # the log began anew


def remove_and_copy(folder: Path, copies: Path) -> None:
    """Remove the files of a store, and copy what this process still has open."""
    for file in folder.glob("fleet.db*"):
        file.unlink()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            target = Path(str(descriptor.readlink()).removesuffix(" (deleted)"))
            if target.parent == folder:
                (copies / target.name).write_bytes(descriptor.read_bytes())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_removed_file_can_be_copied_from_the_running_service(tmp_path: Path) -> None:
    """As the documentation says: its process still has it open, with its log."""
    path, copies = tmp_path / "fleet.db", tmp_path / "copies"
    copies.mkdir()

    async def lose(store: Store) -> None:
        await create(store)
        await change(store)
        remove_and_copy(tmp_path, copies)

    run_scenario(small_store(path), lose)
    run_scenario(small_store(copies / "fleet.db"), check_changed)
