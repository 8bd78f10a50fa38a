"""Migrations: applied once, in order, all or none, and never to a database of another program."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from fairwarning.core.errors import StoreDamaged, Unavailable
from fairwarning.store import schema
from fairwarning.store.scripts import Migration
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.store.batch_generator import BatchGenerator
from tests.store.conftest import run_scenario
from tests.store.test_opening import refusal

SHIPPED = schema.migrations()
NEXT = len(SHIPPED) + 1
COLOUR = Migration(
    NEXT, f"{NEXT:04}_colour.sql", "ALTER TABLE note ADD COLUMN colour TEXT;\nCREATE TABLE t (a);\n"
)
WRONG = Migration(
    NEXT + 1, f"{NEXT + 1:04}_wrong.sql", "CREATE TABLE u (a);\nCREATE TABLE u (a);\n"
)


def store_with(path: Path, *migrations: Migration) -> SQLiteStore:
    """Return a store as a version with these migrations has it."""
    return SQLiteStore(path, reserved_bytes=4096, migrations=list(migrations))


def create_database(path: Path, *migrations: Migration) -> BatchGenerator:
    """Create a database with content, as a version with these migrations would."""
    generator = BatchGenerator(1)

    async def scenario(store: Store) -> None:
        for _ in range(10):
            await store.commit(generator.random_batch(5))

    run_scenario(store_with(path, *migrations), scenario)
    return generator


def tables(path: Path) -> set[str]:
    """Return the names of the tables, after an integrity check."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name for (name,) in rows}


def test_migrations_are_numbered_without_a_gap() -> None:
    """0001, 0002, ...: a database always has the first ones of the code."""
    assert [migration.number for migration in SHIPPED] == list(range(1, NEXT))
    assert all(migration.name.startswith(f"{migration.number:04}_") for migration in SHIPPED)


def test_an_older_database_is_migrated(tmp_path: Path) -> None:
    """Its content stays; the new migration is recorded and not applied again."""
    path = tmp_path / "fleet.db"
    generator = create_database(path, *SHIPPED)

    async def scenario(store: Store) -> None:
        assert await store.load(generator.entities) == generator.entities
        assert [entry.line for entry in await store.journal(limit=9999)] == generator.lines
        await store.commit(generator.random_batch(5))

    for _ in range(2):
        run_scenario(store_with(path, *SHIPPED, COLOUR), scenario)
    assert "t" in tables(path)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT number, name, checksum FROM migration").fetchall()
    migrations = [*SHIPPED, COLOUR]
    expected = [(migration.number, migration.name, migration.checksum) for migration in migrations]
    assert rows == expected


def test_a_migration_that_fails_undoes_those_before_it(tmp_path: Path) -> None:
    """The old version can open the database as before."""
    path = tmp_path / "fleet.db"
    generator = create_database(path, *SHIPPED)
    before = tables(path)
    assert refusal(store_with(path, *SHIPPED, COLOUR, WRONG)).code == "StoreFailed"
    assert tables(path) == before

    async def scenario(store: Store) -> None:
        assert await store.load(generator.entities) == generator.entities

    run_scenario(store_with(path, *SHIPPED), scenario)


def test_a_newer_database_is_left_unchanged(tmp_path: Path) -> None:
    """The error says what to do."""
    path = tmp_path / "fleet.db"
    create_database(path, *SHIPPED, COLOUR)
    content = path.read_bytes()
    error = refusal(store_with(path, *SHIPPED))
    assert isinstance(error, Unavailable)
    assert error.code == "StoreNewer"
    assert COLOUR.name in error.message
    assert "install that version" in error.message
    assert path.read_bytes() == content


def test_a_changed_migration_is_detected(tmp_path: Path) -> None:
    """A database that was created with another text may not fit the code."""
    path = tmp_path / "fleet.db"
    create_database(path, *SHIPPED)
    content = path.read_bytes()
    edited = replace(SHIPPED[0], text=SHIPPED[0].text + "-- edited\n")
    error = refusal(store_with(path, edited, *SHIPPED[1:], COLOUR))
    assert isinstance(error, StoreDamaged)
    assert error.code == "StoreChanged"
    assert SHIPPED[0].name in error.message
    assert path.read_bytes() == content
