"""The schema's steps: each once, in order, all or none; and never on what is not ours to change."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fairwarning.core.errors import FairwarningError, InvariantViolated, Unavailable
from fairwarning.store import schema
from fairwarning.store.scripts import Migration
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.store.author import Author
from tests.store.conftest import play

SHIPPED = schema.migrations()
NEXT = len(SHIPPED) + 1
COLOUR = Migration(
    NEXT, f"{NEXT:04}_colour.sql", "ALTER TABLE note ADD COLUMN colour TEXT;\nCREATE TABLE t (a);\n"
)
WRONG = Migration(
    NEXT + 1, f"{NEXT + 1:04}_wrong.sql", "CREATE TABLE u (a);\nCREATE TABLE u (a);\n"
)


def store_with(path: Path, *steps: Migration) -> SQLiteStore:
    """A store as a version with these steps would have it."""
    return SQLiteStore(path, reserved_bytes=4096, migrations=list(steps))


def filled(path: Path, *steps: Migration) -> Author:
    """A database with something in it, made by a version with these steps."""
    author = Author(1)

    async def story(store: Store) -> None:
        for _ in range(10):
            await store.commit(author.random_batch(5))

    play(store_with(path, *steps), story)
    return author


def tables(path: Path) -> set[str]:
    """What the database holds, and that it is sound."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name for (name,) in rows}


def refusal(store: Store) -> FairwarningError:
    """Why the store does not open."""
    with pytest.raises((FairwarningError, sqlite3.Error)) as refused:
        asyncio.run(store.open())
    assert isinstance(refused.value, FairwarningError)
    return refused.value


def test_the_steps_are_numbered_without_a_gap() -> None:
    """0001, 0002, ...: what a database has is always a beginning of what the code has."""
    assert [step.number for step in SHIPPED] == list(range(1, NEXT))
    assert all(step.name.startswith(f"{step.number:04}_") for step in SHIPPED)


def test_an_older_database_is_brought_up_to_date(tmp_path: Path) -> None:
    """What is in it stays; the new step is recorded and not done again."""
    path = tmp_path / "fleet.db"
    author = filled(path, *SHIPPED)

    async def story(store: Store) -> None:
        assert await store.load(author.entities) == author.entities
        assert [entry.line for entry in await store.journal(limit=9999)] == author.lines
        await store.commit(author.random_batch(5))

    for _ in range(2):
        play(store_with(path, *SHIPPED, COLOUR), story)
    assert "t" in tables(path)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT number, name, checksum FROM migration").fetchall()
    steps = [*SHIPPED, COLOUR]
    assert rows == [(step.number, step.name, step.checksum) for step in steps]


def test_a_step_that_fails_undoes_those_before_it(tmp_path: Path) -> None:
    """The old version can open the database as if nothing had happened."""
    path = tmp_path / "fleet.db"
    author = filled(path, *SHIPPED)
    before = tables(path)
    assert refusal(store_with(path, *SHIPPED, COLOUR, WRONG)).code == "StoreFailed"
    assert tables(path) == before

    async def story(store: Store) -> None:
        assert await store.load(author.entities) == author.entities

    play(store_with(path, *SHIPPED), story)


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    """The error says what to do; not a byte is changed."""
    path = tmp_path / "fleet.db"
    filled(path, *SHIPPED, COLOUR)
    content = path.read_bytes()
    error = refusal(store_with(path, *SHIPPED))
    assert isinstance(error, Unavailable)
    assert error.code == "StoreNewer"
    assert COLOUR.name in error.message
    assert "install that version" in error.message
    assert path.read_bytes() == content


def test_a_step_whose_text_was_changed_is_noticed(tmp_path: Path) -> None:
    """A database made with another text is not what the code thinks it is."""
    path = tmp_path / "fleet.db"
    filled(path, *SHIPPED)
    content = path.read_bytes()
    edited = replace(SHIPPED[0], text=SHIPPED[0].text + "-- edited\n")
    error = refusal(store_with(path, edited, *SHIPPED[1:], COLOUR))
    assert isinstance(error, InvariantViolated)
    assert error.code == "StoreChanged"
    assert SHIPPED[0].name in error.message
    assert path.read_bytes() == content
