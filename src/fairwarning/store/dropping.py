"""Retention on an SQLite connection. Each drop is one short transaction."""

from collections.abc import Mapping

from fairwarning.core.model import KINDS, Ref
from fairwarning.store import schema
from fairwarning.store.files import SqliteConnection

_SQL = schema.queries()


def drop_old_lines(connection: SqliteConnection, before: float) -> int:
    """Drop some of the oldest lines. The chains of lines then end there."""
    oldest_lines = connection.execute(_SQL["oldest_lines"]).fetchall()
    old = [number for number, at in oldest_lines if at < before]
    if old:
        connection.execute("BEGIN")
        connection.execute(_SQL["delete_old_events"], {"last": old[-1]})
        connection.execute(_SQL["delete_old_lines"], (old[-1],))
        connection.execute("COMMIT")
    return len(old)


def ended_entities(connection: SqliteConnection, before: float, limit: int) -> list[Ref]:
    """Return operations and rollouts that ended before a time, the earliest first."""
    values = {"before": before, "limit": limit}
    rows = connection.execute(_SQL["ended_entities"], values).fetchall()
    return [(KINDS[kind], name) for kind, name in rows]


def drop_tombstones(connection: SqliteConnection, until: int) -> int:
    """Drop some rows of removed entities; a row stays while it leads to journal lines."""
    connection.execute("BEGIN")
    connection.execute(_SQL["delete_polls_of_removed"], {"until": until})
    changes = connection.total_changes
    connection.execute(_SQL["delete_tombstones"], {"until": until})
    dropped = connection.total_changes - changes
    connection.execute("COMMIT")
    return dropped


def drop_notes(connection: SqliteConnection, notes: Mapping[str, str]) -> None:
    """Drop these notes, unless their values have changed."""
    for name, value in notes.items():
        connection.execute(_SQL["delete_note"], (name, value))
