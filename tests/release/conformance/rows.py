"""The rows of the contract, and which of them a test names in its `spec` marker."""

import functools
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROWS_FILE = Path(__file__).with_name("rows.toml")
PLANNED_FILE = Path(__file__).with_name("planned.toml")
STATEMENTS_FILE = Path(__file__).with_name("statements.toml")


@functools.cache
def chapters() -> dict[str, dict[str, str]]:
    """Each chapter of the contract with its rows: id to title, in the contract's order."""
    return tomllib.loads(ROWS_FILE.read_text(encoding="utf-8"))


@functools.cache
def all_rows() -> dict[str, str]:
    """Every row: id to title, in the contract's order."""
    return {row: title for rows in chapters().values() for row, title in rows.items()}


@functools.cache
def planned(kind: str = "rows") -> dict[str, str]:
    """The rows, or the `invariants`, that no test proves yet: id to sentence."""
    sentences: dict[str, str] = tomllib.loads(PLANNED_FILE.read_text(encoding="utf-8"))[kind]
    return sentences


@functools.cache
def statements() -> dict[str, dict[str, dict[str, list[str]]]]:
    """Each page of Azure's, each of its headings: statement to the rows and tests that hold it."""
    pages = tomllib.loads(STATEMENTS_FILE.read_text(encoding="utf-8"))
    return {
        page: {
            heading: {statement: held.split() for statement, held in table.items()}
            for heading, table in headings.items()
        }
        for page, headings in pages.items()
    }


def rows_of(item: pytest.Item) -> list[str]:
    """The rows a test says it proves, each once; the test's own marker, its class's, its file's."""
    return list(dict.fromkeys(row for mark in item.iter_markers("spec") for row in mark.args))


def check(item: pytest.Item) -> None:
    """Refuse to collect a test that names a row that does not exist, or no row at all."""
    known = all_rows()
    faults = [fault for mark in item.iter_markers("spec") for fault in _faults(mark, known)]
    if faults:
        raise pytest.Collector.CollectError(f"{item.name}: {'; '.join(faults)}")


def _faults(mark: pytest.Mark, known: dict[str, str]) -> Iterator[str]:
    if not mark.args or mark.kwargs:
        yield "spec() takes row ids and nothing else, at least one: spec('E2', 'M8')"
    for row in mark.args:
        if row in planned() and row not in known:
            yield f"{row} is planned: move it from {PLANNED_FILE.name} to {ROWS_FILE.name}"
        elif row not in known:
            yield f"{row!r} is no row of the contract (see {ROWS_FILE.name})"
