"""The rows of the contract and where they are proved, from the tests' markers."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.rows import chapters
from tests.docs.chapters.page import page, table
from tests.docs.pages import ROOT


def proofs() -> dict[str, list[str]]:
    """For each row the files with a test that names it."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for row in _rows(path):
            found[row].add(path.relative_to(ROOT).as_posix())
    return {row: sorted(files) for row, files in found.items()}


def _rows(path: Path) -> Iterator[str]:
    """What stands in `pytest.mark.spec(...)`, on a test or on a whole file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.spec":
            yield from (str(one.value) for one in node.args if isinstance(one, ast.Constant))


def write() -> str:
    """The page."""
    known = proofs()
    return page(
        "The contract",
        "Every promise has an id, and tests that name it. `make conformance` prints each of these "
        'tests by name; `make conformance ARGS="--require E1-E11"` fails if one of these rows has '
        "none.",
        *(
            part
            for chapter, rows in chapters().items()
            for part in (f"## {chapter}", _table(rows, known))
        ),
    )


def _table(rows: dict[str, str], known: dict[str, list[str]]) -> str:
    lines = [
        [row, promise, "<br>".join(f"`{one}`" for one in known.get(row, ())) or "no test yet"]
        for row, promise in rows.items()
    ]
    return table(["row", "what is promised", "proved in"], lines)
