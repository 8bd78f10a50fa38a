"""The fault table is complete: every place has its row, every row its places and its test."""

from collections import Counter
from dataclasses import astuple

from tests.docs.pages import ROOT
from tests.release.faults.table import own_calls, places, rows


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
