"""The contract and its tests; the invariants, with the source files that name them; the faults."""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from tests.docs.chapters.page import page, table
from tests.docs.pages import ROOT
from tests.release.conformance.rows import chapters, planned, statements
from tests.release.faults.table import FaultRow, rows


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


# --- Invariants -----------------------------------------------------------------------------------


FILE = ROOT / "tests" / "release" / "conformance" / "invariants.toml"
ID = re.compile(r"\bI[BCDGKLRS][0-9]+\b")


def definitions() -> dict[str, dict[str, str]]:
    """The sentence of each invariant by chapter and id."""
    return tomllib.loads(FILE.read_text("utf-8"))


def uses() -> dict[str, list[str]]:
    """For each id the source files whose comments or checks name it."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    for suffix in ("*.py", "*.sql"):
        for path in sorted((ROOT / "src").rglob(suffix)):
            for name in ID.findall(path.read_text("utf-8")):
                files[name].add(path.relative_to(ROOT / "src" / "fairwarning").as_posix())
    return {name: sorted(paths) for name, paths in files.items()}


def write_invariants() -> str:
    """Return the page."""
    used = uses()
    chapters = (
        part
        for chapter, invariants in definitions().items()
        for part in (f"## {chapter}", _invariants(invariants, used))
    )
    return page(
        "Invariants",
        "Properties that hold at all times. Comments and tests refer to them by id. The simulator "
        "(`tests/sim`) and the cluster tests (`tests/cluster`) check them after every step; "
        "the [contract](contract.md) lists what users are promised.",
        *chapters,
        "## Planned",
        "These are not implemented, or no test proves them yet. An invariant that is also listed "
        "above is extended.",
        table(["id", "invariant"], planned("invariants").items()),
    )


def _invariants(invariants: dict[str, str], used: dict[str, list[str]]) -> str:
    rows = [
        [name, sentence, "<br>".join(f"`{path}`" for path in used.get(name, ())) or "tests only"]
        for name, sentence in invariants.items()
    ]
    return table(["id", "invariant", "named in"], rows)


# --- Faults ---------------------------------------------------------------------------------------


HEAD = ["where", "what", "fails once", "fails for ever", "who notices", "test"]
CHAPTERS = {
    "store": "Storage",
    "service": "The service",
    "server": "The process and its ports",
    "metadata": "The metadata endpoint",
    "console": "The console",
    "arm": "The ARM API",
    "machines": "Drivers and machines",
    "guest": "The SDK and the agent",
    "cli": "The command line",
    "testing": "Tests of handlers",
}


def write_faults() -> str:
    """Return the page."""
    folders = groupby(rows(), lambda row: row.places[0].partition("/")[0])
    parts = [
        part
        for folder, group in folders
        for part in (f"## {CHAPTERS[folder]}", table(HEAD, map(_cells, group)))
    ]
    return page(
        "Faults",
        "Every place where the program waits, writes, starts something or reads bytes of others, "
        "found in the source by its calls; the core does none of this. A fault stays where it is: "
        "*who notices* is all who do. The [invariants](invariants.md) IB1 to IB7 say it in "
        "general, and [Reliability](../reliability.md) how it is tested.",
        *parts,
    )


def _cells(row: FaultRow) -> list[str]:
    modules: dict[str, list[str]] = {}
    for place in row.places:
        module, _, kind = place.partition(" ")
        modules.setdefault(module, []).append(kind)
    where = "<br>".join(f"`{module}` {', '.join(kinds)}" for module, kinds in modules.items())
    return [where, row.what, row.once, row.for_ever, row.notices, f"`{row.test}`"]
