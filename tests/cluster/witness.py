"""Sees every batch inside the transaction that commits it, whoever dies right after.

A table beside the store's own, and a function in place of `commit_batch` that fills it: what is in
it was committed, in this order (whoever commits holds the head to the end).
"""

import json
from dataclasses import dataclass
from typing import Any

import psycopg

from fairwarning.core.cascade import JournalLine
from fairwarning.core.model import Entity, Impact, Machine, Ref
from fairwarning.store import codec
from fairwarning.store.codec import KINDS
from fairwarning.store.postgres.rows import entry

INSTALL = """
SET search_path TO fairwarning;
CREATE TABLE witness (
    n bigint GENERATED ALWAYS AS IDENTITY, at double precision NOT NULL, process text NOT NULL,
    given json NOT NULL
);
ALTER FUNCTION commit_batch(text, json) RENAME TO commit_unseen;
CREATE FUNCTION commit_batch(
    by_process text, given json, OUT base bigint, OUT next_due double precision
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT * FROM commit_unseen(by_process, given) INTO base, next_due;
    INSERT INTO witness (at, process, given)
    VALUES (extract(epoch FROM clock_timestamp()), by_process, given);
END
$$;
"""


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch made of an entity: `was` is the version that it was decided on, -1 for none."""

    ref: Ref
    was: int
    entity: Entity | None  # a scope without its machines


@dataclass(frozen=True, slots=True)
class Seen:
    """A batch, as it was given to the database."""

    at: float
    process: str
    entities: list[Written]
    read: list[tuple[Ref, int]]  # what else it was decided on, and at which version
    gone: list[tuple[str, str]]  # scope and machine
    machines: list[tuple[str, Machine]]  # new, or as they are from now on
    lines: list[JournalLine]
    impacts: list[Impact]
    settled: list[str]


def install(url: str) -> None:
    """Watch from now on. The store must have been opened once."""
    with psycopg.connect(url) as connection:
        connection.execute(INSTALL.encode())


def _batch(at: float, process: str, given: dict[str, Any]) -> Seen:
    machines = given["machines"]
    return Seen(
        at=at,
        process=process,
        entities=[_written(one) for one in given["entities"]],
        read=[((KINDS[one["kind"]], one["id"]), one["was"]) for one in given["read"]],
        gone=[(one["scope"], one["name"]) for one in machines["removed"]],
        machines=[
            (one["scope"], codec.decode_machine(one["body"]))
            for one in (*machines["changed"], *machines["added"])
        ],
        lines=[_line(one) for one in given["lines"]],
        impacts=[codec.decode_impact(one["body"]) for one in given["impacts"]],
        settled=given["settled"],
    )


def _written(one: dict[str, Any]) -> Written:
    body = one["body"]
    ref = KINDS[one["kind"]], one["id"]
    return Written(
        ref, one["was"], None if body is None else codec.decode_entity(one["kind"], body)
    )


def _line(one: dict[str, Any]) -> JournalLine:
    told = (one["did"], one["event"], one["machine"], one["operation"], one["why"])
    return entry(0, one["at"], one["actor"], one["kind"], one["id"], *told).line


@dataclass(frozen=True, slots=True)
class Tables:
    """What the store itself keeps at the end."""

    numbers: list[int]  # of the journal's lines
    lines: list[JournalLine]
    versions: dict[Ref, int]
    bodies: dict[Ref, Entity]  # scopes without their machines
    machines: dict[tuple[str, str], Machine]  # by scope and name


def look(url: str) -> tuple[list[Seen], Tables]:
    """All batches so far, in order, and what came of them: of one moment.

    What a killed process had sent may be committed after it.
    """
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SET search_path TO fairwarning")
        batches = connection.execute("SELECT at, process, given::text FROM witness ORDER BY n")
        seen = [_batch(at, process, json.loads(given)) for at, process, given in batches]
        return seen, _tables(connection)


def _tables(connection: psycopg.Connection[tuple[Any, ...]]) -> Tables:
    lines = connection.execute(
        "SELECT number, at, actor, kind, id, did, event, machine, operation, why "
        "FROM journal ORDER BY number"
    ).fetchall()
    entities = connection.execute(
        "SELECT kind, id, version, body FROM entity WHERE body IS NOT NULL"
    ).fetchall()
    machines = connection.execute("SELECT scope, name, body FROM machine").fetchall()
    entries = [entry(*row) for row in lines]
    return Tables(
        numbers=[one.number for one in entries],
        lines=[one.line for one in entries],
        versions={(KINDS[kind], name): version for kind, name, version, _ in entities},
        bodies={
            (KINDS[kind], name): codec.decode_entity(kind, body) for kind, name, _, body in entities
        },
        machines={(scope, name): codec.decode_machine(body) for scope, name, body in machines},
    )


UNDER_WAY = """
SELECT 'impact', id || ' of ' || holder FROM fairwarning.impact
UNION ALL
SELECT kind, id FROM fairwarning.entity
WHERE (kind = 'Scope' AND (body::json -> 'events')::text <> '{}')
    OR (kind = 'Operation' AND body::json ->> 'status' = 'InProgress')
    OR (kind = 'Rollout' AND body::json ->> 'status' = 'Running')
"""


def under_way(connection: psycopg.Connection[tuple[str, str]]) -> list[tuple[str, str]]:
    """Impacts, scopes with events, operations and rollouts that have not come to their end."""
    return connection.execute(UNDER_WAY).fetchall()
