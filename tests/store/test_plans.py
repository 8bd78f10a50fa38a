"""No statement scans a table: the cost of a command does not grow with the fleet."""

import re
import sqlite3

import pytest

from fairwarning.store import schema, tables

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


def test_the_next_due_time_is_read_from_an_index() -> None:
    """Every commit reads it."""
    assert "entity_due" in plan(schema.queries()["next_due"])
