"""Migrations of the SQLite schema."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from time import time

from fairwarning.core.errors import Unavailable
from fairwarning.store import scripts
from fairwarning.store.files import SqliteConnection
from fairwarning.store.scripts import Migration

_FOLDER = Path(__file__).parent / "sql"
_MIGRATION_TABLE = """
CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, at REAL NOT NULL
)
"""


def queries() -> dict[str, str]:
    """Return the statements by name."""
    return scripts.queries(_FOLDER)


def migrations() -> list[Migration]:
    """Return all migrations, in order."""
    return scripts.migrations(_FOLDER)


def migrate(connection: SqliteConnection, migrations: list[Migration]) -> None:
    """Apply the missing migrations inside the caller's transaction.

    Raises and changes nothing when the database belongs to another program, is newer than this
    version, or was created with different migrations.
    """
    applied = _applied(connection)
    # Only one process opens a file, so each migration requires its own version.
    scripts.check(((*migration, migration[0]) for migration in applied), migrations)
    for migration in migrations[len(applied) :]:
        for statement in _statements(migration.text):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO migration (number, name, checksum, at) VALUES (?, ?, ?, ?)",
            (migration.number, migration.name, migration.checksum, time()),
        )


def _applied(connection: SqliteConnection) -> list[tuple[int, str, str]]:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    if tables and ("migration",) not in tables:
        raise Unavailable("NotAStore", "the database belongs to another program; use another file")
    if not tables:
        connection.execute(_MIGRATION_TABLE)
    return connection.execute(
        "SELECT number, name, checksum FROM migration ORDER BY number"
    ).fetchall()


def _statements(text: str) -> Iterator[str]:
    """Yield the statements of a script; `executescript` would commit the transaction first."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
