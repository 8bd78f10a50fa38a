"""The steps of the SQLite schema, taken on a connection."""

import sqlite3
from collections.abc import Iterator
from time import time

from fairwarning.core.errors import Unavailable
from fairwarning.store import scripts
from fairwarning.store.files import SqliteConnection
from fairwarning.store.scripts import Migration

_KNOWN = """
CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, at REAL NOT NULL
)
"""


def queries() -> dict[str, str]:
    """The statements by their names."""
    return scripts.queries(__package__)


def migrations() -> list[Migration]:
    """All steps of the schema, in order."""
    return scripts.migrations(__package__)


def migrate(connection: SqliteConnection, steps: list[Migration]) -> None:
    """Bring the database to the newest step, inside the caller's transaction.

    Raises and changes nothing when the database is not ours, newer than this program, or was made
    with other steps than these.
    """
    done = _done(connection)
    # A file has one program at a time: each step needs itself.
    scripts.check(((*step, step[0]) for step in done), steps)
    for step in steps[len(done) :]:
        for statement in _statements(step.text):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO migration (number, name, checksum, at) VALUES (?, ?, ?, ?)",
            (step.number, step.name, step.checksum, time()),
        )


def _done(connection: SqliteConnection) -> list[tuple[int, str, str]]:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    if tables and ("migration",) not in tables:
        raise Unavailable("NotAStore", "the database belongs to another program; use another file")
    if not tables:
        connection.execute(_KNOWN)
    return connection.execute(
        "SELECT number, name, checksum FROM migration ORDER BY number"
    ).fetchall()


def _statements(text: str) -> Iterator[str]:
    """A script's statements one by one: Python's own way to run a script commits first."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
