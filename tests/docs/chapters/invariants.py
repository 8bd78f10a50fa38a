"""The invariants and the source files that name them."""

import re
import tomllib
from collections import defaultdict

from tests.docs.chapters.page import page, table
from tests.docs.pages import ROOT
from tests.release.conformance.rows import planned

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


def write() -> str:
    """Return the page."""
    used = uses()
    chapters = (
        part
        for chapter, invariants in definitions().items()
        for part in (f"## {chapter}", _table(invariants, used))
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


def _table(invariants: dict[str, str], used: dict[str, list[str]]) -> str:
    rows = [
        [name, sentence, "<br>".join(f"`{path}`" for path in used.get(name, ())) or "tests only"]
        for name, sentence in invariants.items()
    ]
    return table(["id", "invariant", "named in"], rows)
