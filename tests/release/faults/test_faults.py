"""The fault table is complete: every place has its row, every row its places and its test."""

from collections import Counter
from dataclasses import astuple

from tests.docs.pages import ROOT
from tests.release.faults.places import kinds, places
from tests.release.faults.table import own_calls, rows

SAMPLES = {
    "import asyncio as a\na.wait_for(x, 1)": "waits",
    "jobs.get()": "waits",
    "path.open('ab')": "writes",
    "connection.execute('SELECT 1')": "writes",
    "loop.create_task(work())": "spawns",
    "import json\njson.loads(text)": "foreign bytes",
    "settings.get('a')": "",
    "', '.join(names)": "",
    "text.replace('a', 'b')": "",
    "open(path)": "",
}


def test_a_call_is_found() -> None:
    """By its full name or its method, but for those that mappings and texts have, too."""
    assert {source: list(kinds(source)) for source in SAMPLES} == {
        source: [kind] if kind else [] for source, kind in SAMPLES.items()
    }


def test_every_place_has_one_row() -> None:
    """A new wait, write, spawn or parser needs a row that says what happens when it fails."""
    listed = Counter([place for row in rows() for place in row.places] + list(own_calls()))
    assert not {place for place, count in listed.items() if count > 1}
    assert not places() - listed.keys(), "without a row"
    assert not listed.keys() - places(), "not in the source"


def test_each_row_is_complete() -> None:
    """No cell is empty, and its test exists."""
    for row in rows():
        assert all(astuple(row)), row
        path, _, name = row.test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text("utf-8"), row
