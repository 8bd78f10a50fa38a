"""Copies of examples for tests to run."""

import shutil
import sys
from pathlib import Path

from tests.fixtures.programs import ROOT

EXAMPLES = ROOT / "examples"
AGENT = (sys.executable, "-m", "fairwarning", "agent", "run", "--config", "agent.toml")


def copy(name: str, folder: Path) -> Path:
    """Copy the folder of an example; return the copy."""
    return Path(shutil.copytree(EXAMPLES / name, folder / name))


def fill_in(path: Path, **values: object) -> None:
    """Replace texts in a file of an example; each must exist."""
    text = path.read_text()
    for old, new in values.items():
        assert old in text, f"{path.name} has no {old}"
        text = text.replace(old, str(new))
    path.write_text(text)
