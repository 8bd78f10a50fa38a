"""Conversion between batches and rows on an SQLite connection. No transactions, no policy.

A statement writes many rows at once. Python releases the global lock while a statement runs, so a
few long statements let the event loop run, while hundreds of short ones would contend for the lock.
"""

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import cast

from fairwarning.core import cascade
from fairwarning.core.cascade import JournalLine
from fairwarning.core.errors import AddressTaken, Conflict
from fairwarning.core.model import Entity, Ref, Scope
from fairwarning.store import codec, schema
from fairwarning.store.differences import (
    Differences,
    differences,
    machines_after,
    stale_version,
)
from fairwarning.store.files import SqliteConnection
from fairwarning.store.sql_reads import Row
from fairwarning.store.store import Batch

Head = tuple[int, int, int]
"""The last position of the change feed, the last journal number and the last machine number."""

_NO_VERSION = -1  # of an entity that does not exist
_SIZES = (64, 16, 4, 1)  # rows per statement; few sizes, so that prepared statements are reused
_SQL = schema.queries()
_ROW = re.compile(r"(?<=VALUES )\([^)]*\)")


def _repeat_row(sql: str, times: int) -> str:
    return _ROW.sub(lambda row: ", ".join([row[0]] * times), sql)


_MULTI_ROW = {(name, size): _repeat_row(sql, size) for name, sql in _SQL.items() for size in _SIZES}


class SqliteRows:
    """A batch as rows, encoded before its transaction starts."""

    def __init__(self, batch: Batch, head: Head) -> None:
        self.batch = batch
        self._position, self._line, self._machine = head
        self.entities: list[Row] = []
        self.diffs: list[Differences] = []
        self.machines: list[Row] = []
        self.first_lines: list[Row] = []
        self.lines: list[Row] = []
        self._newest: dict[Ref, int] = {}  # number of the newest line, by entity
        self._events: dict[tuple[str, str, str], int] = {}
        for line in batch.lines:
            self._add_line(line)
        for ref, (before, after) in batch.changes.items():
            if before is not after:
                self._put_entity(ref, before, after)
        self.newest = [(kind.__name__, name, line) for (kind, name), line in self._newest.items()]
        self.events = [(*key, line) for key, line in self._events.items()]
        self.impacts = [(impact.id, codec.encode(impact)) for impact in batch.impacts]
        self.head: Head = (max(self._position, head[0] + 1), self._line, self._machine)

    def _add_line(self, line: JournalLine) -> None:
        self._line += 1
        fact, kind, name = line.fact, line.entity[0].__name__, line.entity[1]
        row = (
            line.at, line.actor, kind, name,
            fact.type._value_, fact.event, codec.names(fact.machines), fact.operation,
            fact.detail, codec.announcement(fact.announcement),
        )  # fmt: skip
        before = self._newest.get(line.entity)
        if before is None:
            self.first_lines.append((self._line, *row))
        else:
            self.lines.append((self._line, before, *row))
        self._newest[line.entity] = self._line
        if fact.event:
            self._events.setdefault((fact.event, kind, name), self._line)

    def _put_entity(self, ref: Ref, before: Entity | None, after: Entity | None) -> None:
        position = None
        if ref[0] is Scope:
            self._position = position = self._position + 1
            if diff := differences(ref, before, after):
                self.diffs.append(diff)
                self._put_machines(diff)
        number, expected = (None, _NO_VERSION) if before is None else (-1, before.version)
        line = self._newest.pop(ref, 0)
        version, due, body = _NO_VERSION, None, None
        if after is not None:
            version, due, body = after.version, cascade.due(after), codec.encode(after)
        self.entities.append((
            number, ref[0].__name__, ref[1], version, due, position,
            codec.ended_at(after), codec.has_events(after), line, expected, body,
        ))  # fmt: skip

    def _put_machines(self, diff: Differences) -> None:
        for _, machine in diff.changed:
            self.machines.append(
                (None, diff.scope, machine.name, machine.address, codec.encode(machine))
            )
        for machine in diff.added:
            self._machine += 1
            self.machines.append(
                (self._machine, diff.scope, machine.name, machine.address, codec.encode(machine))
            )


# --- Writing --------------------------------------------------------------------------------------


class VersionConflict(Exception):
    """The batch conflicts with the stored rows. After the rollback `explain` finds the reason."""


def write(connection: SqliteConnection, rows: SqliteRows) -> float | None:
    """Write a batch; return the earliest due time. A `VersionConflict` leaves it half written."""
    try:
        written = _write_rows(connection, "put_entities", rows.entities)
        if written < len(rows.entities) or connection.execute(_SQL["missing_entities"]).fetchone():
            raise VersionConflict
        _write_machines(connection, rows)
    except sqlite3.IntegrityError as error:  # an address in use, or two missing entities
        raise VersionConflict from error
    _write_rows(connection, "set_newest_lines", rows.newest)
    _write_rows(connection, "add_events", rows.events)
    _write_rows(connection, "add_first_lines", rows.first_lines)
    _write_rows(connection, "add_lines", rows.lines)
    _write_rows(connection, "put_impacts", rows.impacts)
    _write_rows(connection, "settle_impacts", [(name,) for name in rows.batch.settled])
    _write_rows(connection, "put_notes", list(rows.batch.notes.items()))
    connection.execute(_SQL["move_head"], rows.head)
    return next_due(connection)


def _write_machines(connection: SqliteConnection, rows: SqliteRows) -> None:
    removed = [(diff.scope, machine.name) for diff in rows.diffs for machine in diff.removed]
    freed = [
        (diff.scope, before.name)
        for diff in rows.diffs
        for before, after in diff.changed
        if before.address != after.address
    ]
    _write_rows(connection, "remove_machines", removed)
    _write_rows(connection, "free_addresses", freed)
    _write_rows(connection, "put_machines", rows.machines)


def _write_rows(connection: SqliteConnection, name: str, rows: Sequence[Row]) -> int:
    """Run a statement over all rows; return how many rows it changed."""
    if not rows:
        return 0
    changes = connection.total_changes
    at = 0
    for size in _SIZES:
        while len(rows) - at >= size:
            values = tuple(chain.from_iterable(rows[at : at + size]))
            connection.execute(_MULTI_ROW[name, size], values)
            at += size
    return connection.total_changes - changes


def explain(connection: SqliteConnection, rows: SqliteRows) -> Conflict:
    """Return the reason why a batch conflicts."""
    for ref, (before, _) in rows.batch.changes.items():
        row = connection.execute(_SQL["version"], (ref[0].__name__, ref[1])).fetchone()
        if (row[0] if row else None) != (before.version if before else None):
            return stale_version(ref)
    claims = [
        (scope, machine.name, machine.address)
        for scope, machine in machines_after(rows.diffs)
        if machine.address
    ]
    for scope, name, address in claims:
        for _, holder, body in machines_at(connection, [address]).values():
            if (holder, codec.decode_machine(body).name) != (scope, name):
                return AddressTaken(address)
    return AddressTaken(claims[-1][2])  # by a machine of the same batch


# --- Reading --------------------------------------------------------------------------------------


def head(connection: SqliteConnection) -> Head:
    """Return the last position and numbers that the database has used."""
    return cast("Head", connection.execute(_SQL["head"]).fetchone())


def load(connection: SqliteConnection, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
    """Return these entities complete; None for those that do not exist."""
    return {ref: _load(connection, ref) for ref in refs}


def _load(connection: SqliteConnection, ref: Ref) -> Entity | None:
    kind, name = ref[0].__name__, ref[1]
    row = connection.execute(_SQL["entity_body"], (kind, name)).fetchone()
    if row is None:
        return None
    entity = codec.decode_entity(kind, row[0])
    if not isinstance(entity, Scope):
        return entity
    bodies = connection.execute(_SQL["machine_bodies"], (name,)).fetchall()
    return codec.with_machines(entity, codec.decode_machines(body for (body,) in bodies))


def machines_at(connection: SqliteConnection, keys: Sequence[int | str]) -> dict[int | str, Row]:
    """Return the number, scope and body of machines by their numbers and addresses."""
    found: dict[int | str, Row] = {}
    for key in keys:
        query = "machine_by_number" if isinstance(key, int) else "machine_by_address"
        if row := connection.execute(_SQL[query], (key,)).fetchone():
            found[key] = row
    return found


def next_due(connection: SqliteConnection) -> float | None:
    """Return the earliest due time."""
    return cast("float | None", connection.execute(_SQL["next_due"]).fetchone()[0])


def select(connection: SqliteConnection, query: str, values: Mapping[str, object]) -> list[Row]:
    """Execute a statement and return its rows."""
    return connection.execute(_SQL[query], values).fetchall()


# --- Changes outside batches ----------------------------------------------------------------------


def record_polls(connection: SqliteConnection, polls: Mapping[str, float]) -> None:
    """Record the polls of these scopes in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    _write_rows(connection, "record_polls", sorted(polls.items()))
    connection.execute("COMMIT")


def recorded_polls(connection: SqliteConnection, scopes: Sequence[str]) -> dict[str, float]:
    """Return the recorded polls of these scopes."""
    rows = (connection.execute(_SQL["recorded_poll"], (scope,)).fetchone() for scope in scopes)
    return dict(row for row in rows if row)


def drop_old_lines(connection: SqliteConnection, before: float) -> int:
    """Drop some of the oldest lines. The chains of lines then end there."""
    old = [number for number, at in select(connection, "oldest_lines", {}) if at < before]
    if old:
        connection.execute("BEGIN")
        connection.execute(_SQL["delete_old_events"], {"last": old[-1]})
        connection.execute(_SQL["delete_old_lines"], {"last": old[-1]})
        connection.execute("COMMIT")
    return len(old)


def drop_tombstones(connection: SqliteConnection, until: int) -> int:
    """Drop some rows of removed entities; a row stays while it leads to journal lines."""
    connection.execute("BEGIN")
    connection.execute(_SQL["delete_polls_of_removed"], {"until": until})
    changes = connection.total_changes
    connection.execute(_SQL["delete_tombstones"], {"until": until})
    dropped = connection.total_changes - changes
    connection.execute("COMMIT")
    return dropped


def add_note_if_absent(connection: SqliteConnection, note: tuple[str, str]) -> None:
    """Add a note with this name and value, unless there is one of the name."""
    select(connection, "add_note_if_absent", dict(zip(("name", "value"), note, strict=True)))


def drop_notes(connection: SqliteConnection, notes: Mapping[str, str]) -> None:
    """Drop these notes, unless their values have changed."""
    for name, value in notes.items():
        connection.execute(_SQL["delete_note"], (name, value))
