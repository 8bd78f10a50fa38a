"""What docs/scenarios.md shows is what happens, and nothing is missing there."""

import re
import subprocess
from pathlib import Path

import pytest

from fairwarning.testing.scenarios import find, play, read, shipped
from fairwarning.testing.scenarios.actions import ACTIONS
from fairwarning.testing.scenarios.expectations import SUBJECTS
from tests.examples.test_pages import block
from tests.fixtures.service import run_command

pytestmark = pytest.mark.spec("O6")

PAGE = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text("utf-8")
EXAMPLE = block("scenarios.md", "toml", "the reboot")


def played(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The page's command, with this file."""
    (folder / "mine.toml").write_text(text)
    return run_command("scenario", "run", "mine.toml", cwd=folder)


def test_the_example(tmp_path: Path) -> None:
    """As it stands, it passes."""
    done = played(EXAMPLE, tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("passed  mine: 9 steps, 5m40s of virtual time in ")


def test_the_difference(tmp_path: Path) -> None:
    """With the one value changed, it fails as shown."""
    shown = block("scenarios.md", "text", "FAILED").splitlines()
    changed = EXAMPLE.replace('status = "Started"', 'status = "Scheduled"')
    said = played(changed, tmp_path).stdout.splitlines()
    assert said[0].rpartition(" in ")[0] == shown[0].rpartition(" in ")[0]
    assert said[1:6] == shown[1:6]
    for line in shown[6:]:
        pattern = re.escape(line).replace(re.escape("..."), ".*")
        assert any(re.fullmatch(pattern, one) for one in said), line


def test_the_refusal(tmp_path: Path) -> None:
    """A word that is none is refused as shown."""
    shown = block("scenarios.md", "text", "evct").strip()
    said = played(EXAMPLE.replace('"evict"', '"evct"'), tmp_path)
    start, _, end = shown.partition("..., ")
    assert said.returncode == 2
    assert said.stderr.startswith(f"Error: {start}")
    assert said.stderr.endswith(f"{end}\n")


def test_every_key_is_on_the_page() -> None:
    """Each word with its keys in one row, each expectation, each scenario that ships."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    for word, action in ACTIONS.items():
        (row,) = [one for one in rows if f"`{word}`" in one.split("|")[1] and one.count("|") == 4]
        assert all(f"`{key}" in row for key in action.keys), word
    for subject, keys in SUBJECTS.items():
        assert all(f"`{key}`" in PAGE for key in keys), subject
    for one in shipped():
        assert f"| `{one.name}` |" in PAGE


def test_from_python() -> None:
    """The names that the page says."""
    assert "`from fairwarning.testing.scenarios import find, play`" in PAGE
    assert play(find("scale-in")).passed
    assert play(read(EXAMPLE)).passed
