"""The guarantees of the contract; and the tests of each, from the tests' markers."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.docs.chapters.page import page, table
from tests.docs.pages import ROOT
from tests.release.conformance.rows import chapters, planned, statements


def proofs() -> dict[str, list[str]]:
    """Return, for each row, the files with a test that names it."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for row in _rows(path):
            files[row].add(path.relative_to(ROOT).as_posix())
    return {row: sorted(names) for row, names in files.items()}


def _rows(path: Path) -> Iterator[str]:
    """Yield the arguments of `pytest.mark.spec(...)`, on a test or on a whole file."""
    source = path.read_text("utf-8")
    if "mark.spec(" not in source:
        return  # parsing takes long
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "spec":
            yield from (str(row.value) for row in node.args if isinstance(row, ast.Constant))


def write() -> str:
    """Return the page."""
    return page(
        "Contract",
        "Every guarantee has an id and tests that name it. In a checkout `make conformance` lists "
        "these tests, and fails if a guarantee has none. "
        "[Invariants](invariants.md) lists the internal properties behind them.",
        *(
            part
            for chapter, rows in chapters().items()
            for part in (f"## {chapter}", table(["id", "guarantee"], rows.items()))
        ),
        *_planned(),
        "## Azure's documentation, statement by statement",
        "The contract began with five pages of Azure's documentation. This is every statement "
        "about behaviour in them, in our own words, and the guarantees that cover it.",
        *(part for title in statements() for part in (f"### {title}", _statements(title))),
    )


def _planned() -> Iterator[str]:
    if planned():
        yield "## Planned"
        yield (
            "These are not implemented, or no test proves them yet. A guarantee that is also "
            "listed above is extended."
        )
        yield table(["id", "guarantee"], planned().items())


def _statements(title: str) -> str:
    lines = [
        [heading, statement, ", ".join(name for name in held if "::" not in name)]
        for heading, stated in statements()[title].items()
        for statement, held in stated.items()
    ]
    return table(["heading", "statement", "guarantees"], lines)
