"""The reference pages, made from the program: `python -m tests.docs.reference --write`.

They are kept in docs/reference, so that they can be read without running anything; a test says when
they no longer tell what the program does.
"""

import sys

from tests.docs.chapters import api, cli, contract, events, figures, invariants, settings
from tests.docs.pages import GENERATED, ROOT

PAGES = {
    "cli.md": cli.write,
    "api.md": api.write,
    "settings.md": settings.write,
    "events.md": events.write,
    "contract.md": contract.write,
    "invariants.md": invariants.write,
    "exit-codes.md": figures.exit_codes,
    "metrics.md": figures.metrics,
}
ANEW = "write it anew with `.venv/bin/python -m tests.docs.reference --write`"


def main(words: list[str]) -> int:
    """Write them, or say which are not as they should be."""
    stale = 0
    for name, write in PAGES.items():
        path, text = GENERATED / name, write()
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale += 1
        where = path.relative_to(ROOT)
        if "--write" in words:
            path.write_text(text, "utf-8")
            sys.stdout.write(f"{where} written\n")
        else:
            sys.stdout.write(f"{where} is out of date: {ANEW}\n")
    return 0 if "--write" in words else min(stale, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
