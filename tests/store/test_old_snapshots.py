"""Transactions of other programs that stay open: commits go on at the same cost."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fairwarning.store.postgres.statements import _SQL
from tests.campaigns import split
from tests.store.conftest import migrated_database

COMMITS = 500
SETTINGS = ("jit", "enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin")
COMMIT = Path(__file__).with_name("commits.sql").read_text("utf-8")
VISITED = {
    "head": "SELECT position FROM head ORDER BY number DESC LIMIT 1",
    "due": "SELECT first_due('p')",
    "batch": "SELECT FROM batch WHERE id = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
    "orphaned impacts": _SQL["orphaned_impacts"],
}
LOOP = "DO $do$ BEGIN FOR n IN 1..{count} LOOP {statements} COMMIT; END LOOP; END $do$"
RENEWAL = ("advance_clock", "renew_lease")
HEARTBEAT = (*RENEWAL, "orphaned_impacts", "feed_position")


@contextmanager
def snapshot(url: str) -> Iterator[None]:
    """Keep a snapshot open, as a dump does."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        yield


def blocks(connection: psycopg.Connection, query: str) -> int:
    """Return how many blocks a query reads, once it has been planned."""
    connection.execute(query.encode())
    query = query.rstrip(";")
    cursor = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}".encode())
    ((((plan,),)),) = cursor.fetchall()
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


def settled_session(url: str) -> psycopg.Connection[Any]:
    """Open a session with the settings of the store."""
    connection = psycopg.connect(url, autocommit=True)
    connection.execute("SET search_path TO fairwarning")
    for name in SETTINGS:
        connection.execute(f"SET {name} TO off".encode())
    return connection


def statement(connection: psycopg.Connection[Any], name: str) -> str:
    """Return a statement of the process p, with its values."""
    values = {"process": "p", "lease": 3.0, "proven": None, "line": None, "answer": None}
    return psycopg.ClientCursor(connection).mogrify(_SQL[name], values)


@pytest.mark.spec("X1")
@pytest.mark.parametrize("query", split(VISITED, 1))
def test_a_commit_does_not_read_old_versions_of_rows(query: str) -> None:
    """The number of blocks stays the same, however many commits an old snapshot has seen."""
    with migrated_database() as url, snapshot(url), settled_session(url) as connection:
        figures = []
        for first in range(1, 3 * COMMITS, COMMITS):
            connection.execute(COMMIT.format(first=first, last=first + COMMITS - 1).encode())
            connection.execute("SELECT set_lease('p', 3600)")
            connection.execute("VACUUM ANALYZE")
            figures.append(blocks(connection, VISITED[query]))
    assert max(figures) <= figures[0] + 3, figures


@pytest.mark.spec("X1")
@pytest.mark.parametrize("count", split((2000, 20_000), 1))
def test_a_heartbeat_does_not_read_old_versions_of_rows(count: int) -> None:
    """It reads as many blocks as at first, however many an old snapshot has seen."""
    with migrated_database() as url, snapshot(url), settled_session(url) as connection:
        texts = {name: statement(connection, name) for name in HEARTBEAT}
        renewal = "".join(f"EXECUTE $text${texts[name]}$text$;" for name in RENEWAL)
        connection.execute("UPDATE fleet_clock SET read_at = extract(epoch FROM clock_timestamp())")
        figures = []
        for _ in range(2):
            connection.execute(LOOP.format(count=count // 2, statements=renewal).encode())
            connection.execute("VACUUM ANALYZE")  # what is known of the tables changes no plan
            figures.append({name: blocks(connection, text) for name, text in texts.items()})
    assert sum(figures[1].values()) <= sum(figures[0].values()) + 3, figures
