"""Records every batch inside the transaction that commits it, even if its process then dies.

A function that replaces `write_batch` fills a table beside the store's own. The table contains the
committed batches in order: the original returns after the end of the commit before it.
"""

import json
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import psycopg

from fairwarning.core.cascade import JournalLine
from fairwarning.core.model import KINDS, Entity, Impact, Machine, Ref
from fairwarning.store import codec
from fairwarning.store.postgres.rows import entry

INSTALL = Path(__file__).with_suffix(".sql").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class EntityWrite:
    """A write of an entity: `expected` is the version that it was decided on, -1 for none."""

    ref: Ref
    expected: int
    entity: Entity | None  # a scope without its machines


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A batch, as it was sent to the database."""

    at: float
    process: str
    shift: float  # of the shared time from the database's clock
    entities: list[EntityWrite]
    read: list[tuple[Ref, int]]  # other entities it was decided on, with their versions
    removed: list[tuple[str, str]]  # scope and machine
    machines: list[tuple[str, Machine]]  # added or changed
    lines: list[JournalLine]
    impacts: list[Impact]
    settled: list[str]


def install(url: str) -> None:
    """Record from now on. The store must have been opened once."""
    with psycopg.connect(url) as connection:
        connection.execute(INSTALL.encode())


def _batch(at: float, process: str, shift: float, document: dict[str, Any]) -> CommittedBatch:
    rows = {name: value or [] for name, value in document.items()}  # null if there are none
    entities = sorted(rows["updates"] + rows["inserts"], key=itemgetter("n"))
    machines = document["machines"] or {"removed": [], "changed": [], "added": []}
    return CommittedBatch(
        at=at,
        process=process,
        shift=shift,
        entities=[
            _entity_write(row, key["was"]) for row, key in zip(entities, rows["keys"], strict=True)
        ],
        read=[((KINDS[row["kind"]], row["id"]), row["was"]) for row in rows["read"]],
        removed=[(row["scope"], row["name"]) for row in machines["removed"]],
        machines=[
            (row["scope"], codec.decode_machine(row["body"]))
            for row in (*machines["changed"], *machines["added"])
        ],
        lines=[_line(line) for line in rows["lines"]],
        impacts=[codec.decode_impact(row["body"]) for row in rows["impacts"]],
        settled=rows["settled"],
    )


def _entity_write(row: dict[str, Any], was: int) -> EntityWrite:
    body = row["body"]
    ref = KINDS[row["kind"]], row["id"]
    return EntityWrite(ref, was, None if body is None else codec.decode_entity(row["kind"], body))


def _line(one: dict[str, Any]) -> JournalLine:
    columns = ("type", "event", "machines", "operation", "detail", "announcement")
    fact = [one[column] for column in columns]
    return entry(0, one["at"], one["actor"], one["kind"], one["id"], *fact).line


@dataclass(frozen=True, slots=True)
class Tables:
    """The content of the store's tables."""

    numbers: list[int]  # of the journal's lines
    lines: list[JournalLine]
    versions: dict[Ref, int]
    bodies: dict[Ref, Entity]  # scopes without their machines
    machines: dict[tuple[str, str], Machine]  # by scope and name


def read(url: str) -> tuple[list[CommittedBatch], Tables]:
    """Return all batches so far, in order, and the tables, in one snapshot.

    A batch that a killed process had sent may be committed after its end.
    """
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SET search_path TO fairwarning")
        rows = connection.execute(
            "SELECT at, process, shift, payload::text FROM recorded_batch ORDER BY n"
        )
        batches = [
            _batch(at, process, shift, json.loads(payload)) for at, process, shift, payload in rows
        ]
        return batches, _tables(connection)


def _tables(connection: psycopg.Connection[tuple[Any, ...]]) -> Tables:
    lines = connection.execute(
        "SELECT number, at, actor, kind, id, type, event, machines, operation, detail, "
        "announcement FROM journal ORDER BY number"
    ).fetchall()
    entities = connection.execute(
        "SELECT kind, id, version, body FROM entity WHERE body IS NOT NULL"
    ).fetchall()
    machines = connection.execute("SELECT scope, name, body FROM machine").fetchall()
    entries = [entry(*row) for row in lines]
    return Tables(
        numbers=[journal_entry.number for journal_entry in entries],
        lines=[journal_entry.line for journal_entry in entries],
        versions={(KINDS[kind], name): version for kind, name, version, _ in entities},
        bodies={
            (KINDS[kind], name): codec.decode_entity(kind, body) for kind, name, _, body in entities
        },
        machines={(scope, name): codec.decode_machine(body) for scope, name, body in machines},
    )


UNFINISHED = """
SELECT 'impact', id || ' of ' || holder FROM fairwarning.impact
UNION ALL
SELECT kind, id FROM fairwarning.entity
WHERE (kind = 'Scope' AND (body::json -> 'events')::text <> '{}')
    OR (kind = 'Operation' AND body::json ->> 'status' = 'InProgress')
    OR (kind = 'Rollout' AND body::json ->> 'status' = 'Running')
"""


def unfinished(connection: psycopg.Connection[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return impacts, scopes with events, operations and rollouts that have not finished."""
    return connection.execute(UNFINISHED).fetchall()
