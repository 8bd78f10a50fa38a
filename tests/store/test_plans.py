"""No statement scans a table: the cost of a command does not grow with the fleet."""

import re
import sqlite3
import time

import pytest

from fairwarning.core.model import Machine, Scope, ScopeKind
from fairwarning.store import schema, tables
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import Batch
from tests.fixtures.waiting import run_async

SMALL = {"head"}  # a single row


def plan(sql: str) -> str:
    """Return SQLite's plan for a statement."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        schema.migrate(connection, schema.migrations())
        names = set(re.findall(r"(?<!:):(\w+)", sql))
        values = dict.fromkeys(names, 1) if names else [1] * sql.count("?")
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    finally:
        connection.close()
    return "\n".join(row[3] for row in rows)


@pytest.mark.spec("X4")
@pytest.mark.parametrize("name", schema.queries())
@pytest.mark.parametrize("size", [1, 64])
def test_no_table_is_scanned(name: str, size: int) -> None:
    """Tables are searched by key or index; only the values in the statement itself are scanned."""
    steps = plan(tables._MULTI_ROW[name, size])
    scanned = set(re.findall(r"SCAN (\w+)", steps)) & {
        "entity", "machine", "impact", "journal", "event", "note", "head",
    }  # fmt: skip
    assert scanned <= SMALL, steps


@pytest.mark.parametrize(
    ("query", "index"),
    [("ended_entities", "entity_ended"), ("delete_tombstones", "entity_removed")],
)
def test_retention_finds_rows_by_an_index(query: str, index: str) -> None:
    """In order, so that it reads only the rows that it drops."""
    steps = plan(schema.queries()[query])
    assert f"USING INDEX {index} " in steps or f"USING COVERING INDEX {index} " in steps
    assert "TEMP B-TREE" not in steps


@pytest.mark.spec("X4")
@run_async
async def test_a_page_of_the_memory_store_costs_the_same_wherever_it_begins() -> None:
    """So that a listing of `--memory` takes a time that is proportional to its length."""
    store = MemoryStore()
    await store.open()
    for number in range(500):
        name = f"scope{number:03}"
        machines = {f"{name}-{n}": Machine(name=f"{name}-{n}") for n in range(100)}
        scope = Scope(id=name, kind=ScopeKind.CLOUD_SERVICE, machines=machines, version=1)
        await store.commit(Batch(1.0, {(Scope, name): (None, scope)}))

    async def seconds(after: int) -> float:
        began = time.thread_time()
        assert len(await store.list_machines(after, 100)) == 100
        return time.thread_time() - began

    first, last = [min([await seconds(at) for _ in range(20)]) for at in (0, 49_900)]
    assert last < 5 * first


def test_the_next_due_time_is_read_from_an_index() -> None:
    """Every commit reads it."""
    assert "entity_due" in plan(schema.queries()["next_due"])
