"""What happens when a wait, a write, a spawn or a parser fails."""

from itertools import groupby

from tests.docs.chapters.page import page, table
from tests.release.faults.table import FaultRow, rows

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


def write() -> str:
    """Return the page."""
    chapters = groupby(rows(), lambda row: row.places[0].partition("/")[0])
    parts = [
        part
        for folder, group in chapters
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
