"""Generate the reference pages from the program: `python -m tests.docs.reference --write`.

The pages are committed in docs/reference, so that they can be read without running anything. A test
fails when they are out of date.
"""

import sys
from collections.abc import Callable
from functools import partial

from tests.docs.chapters import (
    api,
    cli,
    contract,
    events,
    figures,
    settings,
)
from tests.docs.pages import GENERATED, ROOT

PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli.write,
    **{f"cli/{noun}.md": partial(cli.write_group, noun) for noun in cli.groups()},
    "api.md": api.write,
    "settings.md": settings.write,
    "events.md": events.write,
    "contract.md": contract.write,
    "invariants.md": contract.write_invariants,
    "faults.md": contract.write_faults,
    "exit-codes.md": figures.exit_codes,
    "metrics.md": figures.metrics,
}
REGENERATE = "regenerate it with `.venv/bin/python -m tests.docs.reference --write`"


def main(words: list[str]) -> int:
    """Write the pages, or list those that are out of date."""
    stale = 0
    for name, write in PAGES.items():
        path, text = GENERATED / name, write()
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale += 1
        where = path.relative_to(ROOT)
        if "--write" in words:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
            sys.stdout.write(f"{where} written\n")
        else:
            sys.stdout.write(f"{where} is out of date: {REGENERATE}\n")
    return 0 if "--write" in words else min(stale, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
