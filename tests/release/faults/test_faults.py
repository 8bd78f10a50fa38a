"""The fault table is complete: every place has its row, every row its places and its test."""

import ast
from collections import Counter
from dataclasses import astuple

import pytest

from tests.docs.pages import ROOT
from tests.release.faults.places import kinds, places
from tests.release.faults.table import FaultRow, own_calls, rows

SAMPLES = {
    "import asyncio as a\na.wait_for(x, 1)": "waits",
    "from time import sleep\nsleep(1)": "waits",
    "jobs.get()": "waits",
    "thread.join(timeout=3)": "waits",
    "sock.recv(1)": "waits",
    "path.open('ab')": "writes",
    "open(path, 'w')": "writes",
    "path.replace(other)": "writes",
    "connection.execute('SELECT 1')": "writes",
    "import subprocess\nsubprocess.run([])": "spawns",
    "loop.create_task(work())": "spawns",
    "import json\njson.loads(text)": "foreign bytes",
}


@pytest.mark.parametrize(("source", "kind"), SAMPLES.items())
def test_a_call_is_found(source: str, kind: str) -> None:
    """By its full name or its method, whatever name it was imported by."""
    assert list(kinds(source)) == [kind]


@pytest.mark.parametrize(
    "source", ["settings.get('a')", "', '.join(names)", "text.replace('a', 'b')", "open(path)"]
)
def test_a_call_of_another_type(source: str) -> None:
    """Mappings and texts have methods of the same name."""
    assert not list(kinds(source))


def test_every_place_has_one_row() -> None:
    """A new wait, write, spawn or parser needs a row that says what happens when it fails."""
    listed = Counter([place for row in rows() for place in row.places] + list(own_calls()))
    assert not {place for place, count in listed.items() if count > 1}
    assert not places() - listed.keys(), "without a row"
    assert not listed.keys() - places(), "not in the source"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.places[0])
def test_a_row_is_complete(row: FaultRow) -> None:
    """No cell is empty, and its test exists."""
    assert all(astuple(row))
    path, _, name = row.test.partition("::")
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert name in {node.name for node in tree.body if isinstance(node, functions)}
