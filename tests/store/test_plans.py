"""No statement scans a table: the cost of a command does not grow with the fleet."""

import re
import sqlite3

import pytest

from fairwarning.store import schema, tables
from fairwarning.store.memory_indexes import SortedKeys

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
    [
        ("ended_entities", "entity_ended"),
        ("delete_tombstones", "entity_removed"),
        ("next_due", "entity_due"),  # every commit reads it
    ],
)
def test_rows_are_found_by_an_index(query: str, index: str) -> None:
    """In order: retention reads only the rows that it drops."""
    steps = plan(schema.queries()[query])
    assert f"USING INDEX {index} " in steps or f"USING COVERING INDEX {index} " in steps
    assert "TEMP B-TREE" not in steps


class _CountedNumber(int):
    """A number that counts how often one is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        _CountedNumber.compared += 1
        return int(self) < int(other)


@pytest.mark.spec("X4")
def test_a_page_of_the_memory_store_costs_the_same_wherever_it_begins() -> None:
    """So that a listing of `--memory` takes a time that is proportional to its length."""
    keys: SortedKeys[int] = SortedKeys()
    for number in range(10_000):
        keys.add(_CountedNumber(number))
    for after in (0, 5_000, 9_900):
        _CountedNumber.compared = 0
        assert keys.after(_CountedNumber(after), 99) == list(range(after + 1, after + 100))
        assert _CountedNumber.compared < 20
