"""The rows of the contract and the tests of each, from the tests' markers."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.docs.chapters.page import page, table
from tests.docs.pages import ROOT
from tests.release.conformance.rows import chapters, planned


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
    known = proofs()
    return page(
        "Contract",
        "Every guarantee has an id and tests that name it. `make conformance` lists these tests; "
        '`make conformance ARGS="--require E1-E11"` fails if one of these rows has no test. '
        "[Invariants](invariants.md) lists the internal properties behind them.",
        *(
            part
            for chapter, rows in chapters().items()
            for part in (f"## {chapter}", _table(rows, known))
        ),
        "## Planned",
        "These are not implemented, or no test proves them yet. A row that is also listed above is "
        "extended.",
        table(["id", "guarantee"], planned().items()),
    )


def _table(rows: dict[str, str], known: dict[str, list[str]]) -> str:
    lines = [
        [row, promise, "<br>".join(f"`{file}`" for file in known.get(row, ())) or "no test yet"]
        for row, promise in rows.items()
    ]
    return table(["id", "guarantee", "tests"], lines)
