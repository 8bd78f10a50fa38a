"""Why some mutants survive: read from `survivors.toml`."""

import tomllib
from pathlib import Path

_FILE = Path(__file__).with_name("survivors.toml")
_COLUMNS = "module", "function", "before", "after"


def reasons() -> dict[tuple[str, ...], str]:
    """Return the reasons by `Mutant.key`."""
    rows = tomllib.loads(_FILE.read_text("utf-8"))["survivor"]
    return {tuple(row[column] for column in _COLUMNS): row["reason"] for row in rows}
