"""The command `fairwarning scenario`."""

import json
import os
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.terminal import run_on_terminal
from tests.fixtures.service import PROGRAM, run_command

pytestmark = pytest.mark.spec("O6")

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
