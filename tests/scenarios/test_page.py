"""docs/scenarios.md: its examples work, and it lists every key."""

import re
import subprocess
from pathlib import Path

import pytest

from fairwarning.testing.scenarios import find, read, run_scenario, shipped
from fairwarning.testing.scenarios.actions import ACTIONS
from fairwarning.testing.scenarios.expectations import SUBJECTS
from tests.examples.test_pages import block
from tests.fixtures.service import run_command

pytestmark = pytest.mark.spec("O6")

PAGE = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text("utf-8")
EXAMPLE = block("scenarios.md", "toml", "the reboot")


def run_file(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command of the page with this file."""
    (folder / "mine.toml").write_text(text)
    return run_command("scenario", "run", "mine.toml", cwd=folder)


def test_the_example(tmp_path: Path) -> None:
    """The example passes unchanged."""
    done = run_file(EXAMPLE, tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("passed  mine: 9 steps, 5m40s of virtual time in ")


def test_the_difference(tmp_path: Path) -> None:
    """With one value changed, it fails as shown."""
    shown = block("scenarios.md", "text", "FAILED").splitlines()
    changed = EXAMPLE.replace('status = "Started"', 'status = "Scheduled"')
    printed = run_file(changed, tmp_path).stdout.splitlines()
    assert printed[0].rpartition(" in ")[0] == shown[0].rpartition(" in ")[0]
    assert printed[1:6] == shown[1:6]
    for line in shown[6:]:
        pattern = re.escape(line).replace(re.escape("..."), ".*")
        assert any(re.fullmatch(pattern, candidate) for candidate in printed), line


def test_the_refusal(tmp_path: Path) -> None:
    """An unknown action is refused as shown."""
    shown = block("scenarios.md", "text", "evct").strip()
    done = run_file(EXAMPLE.replace('"evict"', '"evct"'), tmp_path)
    start, _, end = shown.partition("..., ")
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: {start}")
    assert done.stderr.endswith(f"{end}\n")


def test_every_key_is_on_the_page() -> None:
    """The page has a row for each action with its keys, each expectation and each scenario."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    for name, action in ACTIONS.items():
        (row,) = [row for row in rows if f"`{name}`" in row.split("|")[1] and row.count("|") == 4]
        assert all(f"`{key}" in row for key in action.keys), name
    for subject, keys in SUBJECTS.items():
        assert all(f"`{key}`" in PAGE for key in keys), subject
    for scenario in shipped():
        assert f"| `{scenario.name}` |" in PAGE


def test_from_python() -> None:
    """The Python example of the page works."""
    assert "`from fairwarning.testing.scenarios import find, run_scenario`" in PAGE
    assert run_scenario(find("scale-in")).passed
    assert run_scenario(read(EXAMPLE)).passed
