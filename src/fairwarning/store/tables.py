"""Batches to rows and rows to values, on an SQLite connection. No transactions, no policy.

Rows are written many at a time. Python's global lock is free while a statement runs: a few long
steps let the event loop go on, where hundreds of short ones would keep taking the lock from it.
"""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import cast

from fairwarning.core import cascade
from fairwarning.core.cascade import JournalLine
from fairwarning.core.errors import Conflict
from fairwarning.core.model import Entity, Impact, Ref, Scope
from fairwarning.store import codec, schema
from fairwarning.store.codec import KINDS
from fairwarning.store.differences import (
    Differences,
    address_taken,
    arriving,
    differences,
    stale_version,
)
from fairwarning.store.files import SqliteConnection
from fairwarning.store.store import Batch, JournalEntry, MachineLocation, ScopeChange

Row = tuple[object, ...]
Head = tuple[int, int, int]
"""The last position of the change feed, the last numbers of the journal and of a machine."""

_LAST_NUMBER = 2**63 - 1
_NO_VERSION = -1  # of an entity that is not there
_SIZES = (64, 16, 4, 1)  # rows a statement; few sizes, so that prepared statements are used again
_SQL = schema.queries()
_ROW = re.compile(r"(?<=VALUES )\([^)]*\)")


def _repeated(sql: str, times: int) -> str:
    return _ROW.sub(lambda row: ", ".join([row[0]] * times), sql)


_MANY = {(name, size): _repeated(sql, size) for name, sql in _SQL.items() for size in _SIZES}


class SqliteRows:
    """A batch as rows, encoded before its transaction begins."""

    def __init__(self, batch: Batch, head: Head) -> None:
        self.batch = batch
        self._position, self._line, self._machine = head
        self.entities: list[Row] = []
        self.moves: list[Differences] = []
        self.machines: list[Row] = []
        self.first_lines: list[Row] = []
        self.lines: list[Row] = []
        self._newest: dict[Ref, int] = {}  # lines, by the entity they are about
        self._events: dict[tuple[str, str, str], int] = {}
        for line in batch.lines:
            self._add_line(line)
        for ref, (before, after) in batch.changes.items():
            if before is not after:
                self._put_entity(ref, before, after)
        self.told = [(kind.__name__, name, line) for (kind, name), line in self._newest.items()]
        self.events = [(*key, line) for key, line in self._events.items()]
        self.impacts = [(impact.id, codec.text(impact)) for impact in batch.impacts]
        self.head: Head = (max(self._position, head[0] + 1), self._line, self._machine)

    def _add_line(self, line: JournalLine) -> None:
        self._line += 1
        fact, kind, name = line.fact, line.entity[0].__name__, line.entity[1]
        row = (
            line.at, line.actor, kind, name,
            fact.type.value, fact.event, codec.names(fact.machines), fact.operation,
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
            if move := differences(ref, before, after):
                self.moves.append(move)
                self._put_machines(move)
        number, was = (None, _NO_VERSION) if before is None else (-1, before.version)
        line = self._newest.pop(ref, 0)
        version, due, body = _NO_VERSION, None, None
        if after is not None:
            version, due, body = after.version, cascade.due(after), codec.text(after)
        self.entities.append(
            (number, ref[0].__name__, ref[1], version, due, position, line, was, body)
        )

    def _put_machines(self, move: Differences) -> None:
        for _, machine in move.changed:
            self.machines.append(
                (None, move.scope, machine.name, machine.address, codec.text(machine))
            )
        for machine in move.fresh:
            self._machine += 1
            self.machines.append(
                (self._machine, move.scope, machine.name, machine.address, codec.text(machine))
            )


# --- Writing --------------------------------------------------------------------------------------


class VersionConflict(Exception):
    """The batch does not fit what is stored. After the rollback `explain` says why."""


def write(connection: SqliteConnection, rows: SqliteRows) -> float | None:
    """Write a batch and return the earliest due time. May raise `VersionConflict` halfway."""
    try:
        found = _many(connection, "put_entities", rows.entities)
        if found < len(rows.entities) or connection.execute(_SQL["stray"]).fetchone():
            raise VersionConflict
        _move_machines(connection, rows)
    except sqlite3.IntegrityError as error:  # an address of another machine, or two strays
        raise VersionConflict from error
    _many(connection, "tell_of_entities", rows.told)
    _many(connection, "add_events", rows.events)
    _many(connection, "add_first_lines", rows.first_lines)
    _many(connection, "add_lines", rows.lines)
    _many(connection, "put_impacts", rows.impacts)
    _many(connection, "settle_impacts", [(name,) for name in rows.batch.settled])
    _many(connection, "put_notes", list(rows.batch.notes.items()))
    connection.execute(_SQL["move_head"], rows.head)
    return next_due(connection)


def _move_machines(connection: SqliteConnection, rows: SqliteRows) -> None:
    gone = [(move.scope, machine.name) for move in rows.moves for machine in move.gone]
    freed = [
        (move.scope, before.name)
        for move in rows.moves
        for before, after in move.changed
        if before.address != after.address
    ]
    _many(connection, "remove_machines", gone)
    _many(connection, "free_addresses", freed)
    _many(connection, "put_machines", rows.machines)


def _many(connection: SqliteConnection, name: str, rows: Sequence[Row]) -> int:
    """Run a writing statement over all rows; how many it changed."""
    if not rows:
        return 0
    changes = connection.total_changes
    at = 0
    for size in _SIZES:
        while len(rows) - at >= size:
            values = tuple(chain.from_iterable(rows[at : at + size]))
            connection.execute(_MANY[name, size], values)
            at += size
    return connection.total_changes - changes


def explain(connection: SqliteConnection, rows: SqliteRows) -> Conflict:
    """Why a batch did not fit."""
    for ref, (before, _) in rows.batch.changes.items():
        row = connection.execute(_SQL["version"], (ref[0].__name__, ref[1])).fetchone()
        if (row[0] if row else None) != (before.version if before else None):
            return stale_version(ref)
    claims = [(scope, one.name, one.address) for scope, one in arriving(rows.moves) if one.address]
    for scope, name, address in claims:
        for place in find(connection, "", address, 0):
            if (place.scope, place.machine.name) != (scope, name):
                return address_taken(address)
    return address_taken(claims[-1][2])  # by a machine of the same batch


# --- Reading --------------------------------------------------------------------------------------


def head(connection: SqliteConnection) -> Head:
    """How far the database is."""
    return cast("Head", connection.execute(_SQL["head"]).fetchone())


def load(connection: SqliteConnection, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
    """Entities, whole."""
    return {ref: _load(connection, ref) for ref in refs}


def _load(connection: SqliteConnection, ref: Ref) -> Entity | None:
    kind, name = ref[0].__name__, ref[1]
    row = connection.execute(_SQL["entity"], (kind, name)).fetchone()
    if row is None:
        return None
    entity = codec.entity(kind, row[0])
    if not isinstance(entity, Scope):
        return entity
    bodies = connection.execute(_SQL["machines"], (name,)).fetchall()
    return codec.whole(entity, codec.machines(body for (body,) in bodies))


def due(connection: SqliteConnection, now: float, limit: int) -> list[Ref]:
    """Entities that are due, the longest due first."""
    rows = connection.execute(_SQL["due"], (now, limit)).fetchall()
    return [(KINDS[kind], name) for kind, name in rows]


def next_due(connection: SqliteConnection) -> float | None:
    """The earliest due time."""
    return cast("float | None", connection.execute(_SQL["next_due"]).fetchone()[0])


def find(
    connection: SqliteConnection, name: str, address: str, number: int, scope: str = ""
) -> list[MachineLocation]:
    """Machines by name, else by address, else by scope, else by number."""
    if name:
        return _places(connection, "machines_named", name)
    if address:
        return _places(connection, "machines_at", address)
    if scope:
        return _places(connection, "machines_of", scope)
    return _places(connection, "machine_numbered", number)


def places(connection: SqliteConnection, after: int, limit: int) -> list[MachineLocation]:
    """Machines in order of their numbers."""
    return _places(connection, "places", after, limit)


def _places(connection: SqliteConnection, query: str, *values: object) -> list[MachineLocation]:
    rows = connection.execute(_SQL[query], values).fetchall()
    return [MachineLocation(number, scope, codec.machine(body)) for number, scope, body in rows]


def names(connection: SqliteConnection, kind: type[Entity], after: str, limit: int) -> list[str]:
    """Ids of a kind, in order."""
    rows = connection.execute(_SQL["names"], (kind.__name__, after, limit)).fetchall()
    return [name for (name,) in rows]


def busy(connection: SqliteConnection, after: str, limit: int) -> list[str]:
    """Ids of scopes that have events, in order."""
    return [name for (name,) in connection.execute(_SQL["busy"], (after, limit)).fetchall()]


def unfinished(connection: SqliteConnection, after: str, limit: int) -> list[Impact]:
    """Impacts begun and not settled."""
    rows = connection.execute(_SQL["impacts"], (after, limit)).fetchall()
    return [codec.impact(body) for (body,) in rows]


def changed(connection: SqliteConnection, after: int, limit: int) -> list[ScopeChange]:
    """The change feed."""
    rows = connection.execute(_SQL["changed"], (after, limit)).fetchall()
    return [ScopeChange(position, scope) for position, scope in rows]


def journal(
    connection: SqliteConnection, after: int, limit: int, entity: Ref | None, event: str
) -> list[JournalEntry]:
    """Lines in order. Those of an entity cost a step for each newer one of it."""
    values: dict[str, object] = {"after": max(after, 0), "limit": limit, "event": event}
    if entity is not None:
        query = "lines_of_entity"
        values |= {"kind": entity[0].__name__, "id": entity[1]}
    else:
        query = "lines_of_event" if event else "lines"
    return [_entry(*row) for row in connection.execute(_SQL[query], values).fetchall()]


def lines_of_operation(
    connection: SqliteConnection, operation: str, after: int, before: int, limit: int
) -> list[JournalEntry]:
    """Lines of an operation between two numbers. Costs a step for each line between them."""
    values = {"operation": operation, "after": after, "before": before, "limit": limit}
    rows = connection.execute(_SQL["lines_of_operation"], values).fetchall()
    return [_entry(*row) for row in rows]


def latest(
    connection: SqliteConnection, limit: int, before: int | None, entity: Ref | None
) -> list[JournalEntry]:
    """The newest lines, the newest first."""
    past = _LAST_NUMBER if before is None else before
    values: dict[str, object] = {"limit": limit, "before": past}
    query = "latest"
    if entity is not None:
        query = "latest_of_entity"
        values |= {"kind": entity[0].__name__, "id": entity[1]}
    return [_entry(*row) for row in connection.execute(_SQL[query], values).fetchall()]


def _entry(number: int, at: float, actor: str, kind: str, name: str, *fact: str) -> JournalEntry:
    return JournalEntry(number, JournalLine(at, actor, (KINDS[kind], name), codec.fact(*fact)))


def forget(connection: SqliteConnection, before: float) -> int:
    """Drop the oldest lines, few enough to keep nobody waiting. Chains of lines end there then."""
    oldest = connection.execute(_SQL["oldest"]).fetchall()
    old = [number for number, at in oldest if at < before]
    if old:
        connection.execute("BEGIN")
        connection.execute(_SQL["forget_events"], (old[-1], old[-1]))
        connection.execute(_SQL["forget_lines"], (old[-1],))
        connection.execute("COMMIT")
    return len(old)


def note(connection: SqliteConnection, name: str) -> str | None:
    """A small value."""
    row = connection.execute(_SQL["note"], (name,)).fetchone()
    return row[0] if row else None


def keep_first(connection: SqliteConnection, name: str, value: str) -> str:
    """The note, made if it is not there."""
    connection.execute(_SQL["keep_first"], (name, value))
    return cast("str", connection.execute(_SQL["note"], (name,)).fetchone()[0])
