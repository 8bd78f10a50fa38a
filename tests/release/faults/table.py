"""The rows of the fault table: what happens at each place when it fails, and the test."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("rows.toml")


@dataclass(frozen=True)
class FaultRow:
    """Places that fail alike."""

    places: list[str]  # a module and a kind of call each
    what: str
    once: str
    for_ever: str
    notices: str
    test: str  # file::function


@cache
def rows() -> list[FaultRow]:
    """All rows, in the order of the file."""
    return [FaultRow(**row) for row in tomllib.loads(FILE.read_text("utf-8"))["row"]]


@cache
def own_calls() -> frozenset[str]:
    """Places that only call our own classes."""
    return frozenset(tomllib.loads(FILE.read_text("utf-8"))["own"])
