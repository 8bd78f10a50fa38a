"""The command `fairwarning scenario`, and its page, docs/scenarios.md."""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from fairwarning.testing.scenarios import find, read, run_scenario, shipped
from fairwarning.testing.scenarios.actions import ACTIONS
from fairwarning.testing.scenarios.expectations import SUBJECTS
from tests.cli.terminal import run_on_terminal
from tests.examples.test_pages import block
from tests.fixtures.service import PROGRAM, run_command

pytestmark = pytest.mark.spec("O6")

PAGE = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text("utf-8")
EXAMPLE = block("scenarios.md", "toml", "the reboot")
WRONG = """
[[fleet.machine]]
name = "web"
[[step]]
do = "restart"
machine = "web"
[[step]]
at = "15m"
note = "It is [bold]wrong[/bold]"
expect = { machine = "web", status = "Scheduled" }
"""


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A scenario that fails."""
    path = tmp_path / "wrong.toml"
    path.write_text(WRONG)
    return path


def test_list() -> None:
    """It prints a line for each scenario, or a JSON array."""
    heading, *lines = run_command("scenario", "list").stdout.splitlines()
    assert heading.split() == ["scenario", "length", "about"]
    assert len(lines) == 9
    assert re.fullmatch(r"spot-eviction +40 s +Spot machines are evicted: .*", lines[6])
    known = json.loads(run_command("scenario", "list", "--json").stdout)
    assert [scenario["name"] for scenario in known] == [line.split()[0] for line in lines]
    assert known[6]["seconds"] == 40
    assert set(known[6]) == {"name", "about", "steps", "seconds"}


def test_show(tmp_path: Path) -> None:
    """It prints the file of a scenario, which can be edited and run."""
    done = run_command("scenario", "show", "user-reboot")
    assert "step" in tomllib.loads(done.stdout)
    mine = tmp_path / "mine.toml"
    mine.write_text(done.stdout)
    assert run_command("scenario", "run", str(mine)).stdout.startswith("passed  mine: ")
    unknown = run_command("scenario", "show", "nothing")
    assert (unknown.returncode, unknown.stdout) == (3, "")


def test_run_all() -> None:
    """Without a terminal it prints one line per scenario and no progress bar."""
    done = run_command("scenario", "run", "--all")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 9
    shape = r"passed  [a-z-]+: [0-9]+ steps, [0-9dhms]+ of virtual time in [0-9.]+ s"
    assert all(re.fullmatch(shape, line) for line in lines), lines


def test_a_difference(wrong: Path) -> None:
    """It is printed in full, the exit code is 1, and the other scenarios still run."""
    done = run_command("scenario", "run", str(wrong), "spot-eviction")
    assert done.returncode == 1
    assert done.stdout.startswith("FAILED  wrong: step 2 of 2, 15m of virtual time")
    assert f"{wrong}: step 2 (line 7), expect, status\n  at        15m\n" in done.stdout
    assert "  expected  machine web: status 'Scheduled'\n  found     'Started'\n" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("passed  spot-eviction: ")


def test_json_and_junit(wrong: Path, tmp_path: Path) -> None:
    """The results are available as JSON and as a JUnit report."""
    report = tmp_path / "report.xml"
    done = run_command(
        "scenario", "run", str(wrong), "user-redeploy", "--json", "--junit", str(report)
    )
    assert done.returncode == 1
    output = json.loads(done.stdout)
    assert output["passed"] is False
    first, second = output["scenarios"]
    assert (first["name"], first["passed"], first["done"], first["steps"]) == ("wrong", False, 1, 2)
    assert (first["difference"]["step"], first["difference"]["line"]) == (2, 7)
    assert first["difference"]["found"] == "'Started'"
    assert first["difference"]["journal"]
    assert (second["passed"], second["difference"], second["seconds"]) == (True, None, 2400)
    suite = ET.parse(report).getroot()
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "1")
    failures = {case.attrib["name"]: case.findtext("failure") for case in suite}
    assert failures["user-redeploy"] is None
    assert f"{wrong}: step 2" in str(failures["wrong"])


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "Give the names of scenarios, or --all"),
        (("--all", "scale-in"), 2, "Give the names of scenarios, or --all"),
        (("scale-in", "nothing"), 3, "no scenario or file named 'nothing'; known scenarios: "),
        (("scale-in", "--junit", "/nowhere/report.xml"), 2, "there is no folder /nowhere"),
        (("scale-in", "--junit", ""), 2, "give the name of a file"),
        (("scale-in", "--junit", "/dev/full"), 1, "/dev/full: No space left on device"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], code: int, message: str) -> None:
    """The error is one sentence; the exit code gives the kind of error."""
    done = run_command("scenario", "run", *words)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_invalid_file(tmp_path: Path) -> None:
    """No scenario runs, and the error gives the place in the file."""
    path = tmp_path / "bad.toml"
    path.write_text(WRONG.replace("Scheduled", "Planned"))
    done = run_command("scenario", "run", "scale-in", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    place = f"{path}: step 2 (line 7), expect, status"
    assert done.stderr == f"Error: {place}: must be one of Scheduled, Started, not 'Planned'\n"


def test_the_progress_bar_on_a_terminal(wrong: Path) -> None:
    """It shows the clock and the current step; the result is in colour."""
    command = [*PROGRAM, "scenario", "run", "host-update", str(wrong)]
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160"}
    code, text = run_on_terminal(command, env=env)
    assert code == 1, text
    assert "The operator pauses it; the scheduled event still happens" in text
    assert "It is [bold]wrong[/bold]" in text  # markup in notes is printed literally
    assert re.search(r"\x1b\[32mpassed  host-update: ", text)
    assert re.search(r"\x1b\[31mFAILED  wrong: ", text)


# --- The page -------------------------------------------------------------------------------------


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
