"""The result of a benchmark: a table of numbers, and targets; and their page."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text("utf-8"))

_HEADING = """\
# Benchmarks

<!-- Written by `make bench ARGS=--write`; do not edit by hand. -->

Every figure is compared with a peer or given as a ratio from the same run, because figures of
different machines or days are not comparable. CPU time (of all threads) comes first, because other
programs disturb it least. Contenders alternate in three rounds, and each figure is the median.
`make bench` measures again; `make bench ARGS="commands --quick"` runs one benchmark quickly.
"""

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
        return [number(values[name]) if name in values else "" for name in self.columns]


def number(value: float) -> str:
    """Format a number with the significant digits."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{round(value, 2) + 0.0:.2f}"  # no negative zero


# --- The page -------------------------------------------------------------------------------------


def as_markdown(machine: Mapping[str, str], results: Sequence[Result]) -> Iterator[str]:
    """The lines of the page of the documentation."""
    yield _HEADING
    yield from _table(("", ""), list(machine.items()))
    yield "\n## Targets\n"
    targets = [target.cells for result in results for target in result.targets]
    yield from _table(("", "measured", "target", ""), targets)
    for result in results:
        yield f"\n## {result.title}\n\n{result.about}\n"
        rows = [(row, *result.cells(row)) for row in result.rows]
        yield from _table(("", *result.columns), rows)
        for note in result.notes:
            yield f"\n{note}"
    yield ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Format a table: text left-aligned, numbers right-aligned."""
    yield f"| {' | '.join(heads)} |"
    yield f"|---|{'--:|' * (len(heads) - 1)}" if len(heads) > 2 else "|---|---|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
