"""The result of a benchmark: a table of numbers, and targets."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NONE = ""  # an empty cell

_TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text("utf-8"))

Rows = Mapping[str, Mapping[str, float]]


def described(name: str, **values: object) -> tuple[str, str, str]:
    """The name, the title and the text of a benchmark, with these values."""
    title, about = (_TEXTS[name][part].format(**values) for part in ("title", "about"))
    return name, title, " ".join(about.split())


@dataclass(frozen=True, slots=True)
class Target:
    """A target for a number."""

    what: str
    value: float
    bound: float
    at_least: bool

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The name, the value, the bound and the verdict."""
        side = "at least" if self.at_least else "at most"
        verdict = "met" if self.met else "missed"
        return self.what, number(self.value), f"{side} {self.bound:g}", verdict


Figures = tuple[Rows, Sequence[Target], Sequence[str]]
"""The rows, the targets and the notes of a result."""


@dataclass(frozen=True, slots=True)
class Result:
    """A benchmark's table. Column names include the unit; a row may have empty columns."""

    name: str
    title: str
    about: str
    rows: Rows
    targets: Sequence[Target] = ()
    notes: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """All columns, in the order of their first use."""
        return list(dict.fromkeys(column for row in self.rows.values() for column in row))

    def cells(self, row: str) -> list[str]:
        """A row as text."""
        values = self.rows[row]
        return [number(values[name]) if name in values else NONE for name in self.columns]


def number(value: float) -> str:
    """Format a number with the significant digits."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{round(value, 2) + 0.0:.2f}"  # no negative zero
