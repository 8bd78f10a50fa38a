"""The command `fairwarning certify`: it finds every flaw, and none in a correct handler."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fairwarning.testing.certify.traps import TRAPS
from tests.fixtures.files import short_folder
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.waiting import wait_until

pytestmark = [needs_namespaces, pytest.mark.spec("O11")]

ROOT = Path(__file__).parents[2]
NAIVE = (sys.executable, str(ROOT / "examples" / "naive-handler" / "handler.py"))
HANDLERS = Path(__file__).with_name("handlers")
PLAIN = (sys.executable, str(HANDLERS / "handler.py"))
_AGENT = f"{sys.executable} -m fairwarning agent run --config {HANDLERS / 'agent.toml'}"
AGENT = ("sh", "-c", f'cd "$STATE_DIRECTORY" && exec {_AGENT}')
LONGEST_SECONDS = 420.0  # longer than any run on an idle host


def certify(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    command = (sys.executable, "-m", "fairwarning", "certify", *words)
    return run_program(*command, timeout=LONGEST_SECONDS, env=os.environ | environment)


def results(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """Return the result of each trap from the JSON output."""
    output = json.loads(done.stdout)
    traps: dict[str, dict[str, Any]] = {result["name"]: result for result in output["traps"]}
    assert output["survived"] + output["failed"] == len(traps)
    assert done.returncode == (1 if output["failed"] else 0), done.stderr
    return traps


def failed(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return what was observed in each failed trap."""
    return {
        name: result["seen"] for name, result in results(done).items() if not result["survived"]
    }


# --- The example ----------------------------------------------------------------------------------

IGNORED = "^read its own {} event .* but did not approve it"
FAULTS = {
    "scale-set-name": IGNORED.format("Reboot"),
    "freeze": IGNORED.format("Freeze"),
    "terminate": IGNORED.format("Terminate"),
    "duplicate-document": IGNORED.format("Terminate"),
    "short-notice": IGNORED.format("Preempt"),
    "similar-name": "approved an event of web_10, which is another machine",
    "other-machine": "approved an event of web_0, which is another machine",
    "two-resources": "without waiting for the other machine",
    "cancelled-event": "exited with code 0: Reboot has started",
    "empty-body": "exited with code 1: json.decoder.JSONDecodeError",
    "cut-body": "exited with code 1: http.client.IncompleteRead",
    "approval-fails": "did not repeat its approval within 20 s after 429",
    # The second text if its approval and the power loss coincide.
    "reboot-in-the-middle": "did not approve it|exited with code 0: Reboot has started",
}


@pytest.mark.campaign
def test_each_fault_of_the_naive_handler_is_found(tmp_path: Path) -> None:
    """Each fault is found by its own traps, also in the JUnit report. It ignores three types."""
    report = tmp_path / "report.xml"
    done = certify("--json", "--junit", str(report), "--", *NAIVE, NAIVE_SECONDS="1")
    seen = failed(done)
    assert seen.keys() == FAULTS.keys()
    assert all(re.search(FAULTS[name], why) for name, why in seen.items()), seen
    assert json.loads(done.stdout)["ignored"] == ["Freeze", "Preempt", "Terminate"]
    suite = ET.parse(report).getroot()
    assert suite.get("tests") == str(len(TRAPS))
    (ignored,) = suite.iter("property")
    assert ignored.attrib == {"name": "ignored", "value": "Freeze, Preempt, Terminate"}
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert seen.keys() == {name for name, case in cases.items() if case.find("failure") is not None}
    assert "approving Reboot of ['web_0']" in (cases["other-machine"].findtext("system-out") or "")


@pytest.mark.campaign
def test_a_handler_that_polls_once_a_minute() -> None:
    """The handler misses short notices, and its other faults are still found."""
    traps = ("--trap", "short-notice", "--trap", "empty-body")  # all would take three minutes
    slow = failed(certify("--json", *traps, "--", *NAIVE))
    assert "missed the notice" in slow.pop("short-notice")
    assert FAULTS["empty-body"] in slow.pop("empty-body")
    assert slow == {}


@pytest.mark.campaign
def test_a_handler_that_never_approves() -> None:
    """The report notes it below the table, with the end of the handler's output."""
    words = ("--trap", "scale-set-name", "--trap", "gone", "--prepare", "5", "--", "sh", "-c")
    handler = " ".join(("echo watching; exec", *PLAIN, "'never approves'"))
    done = certify(*words, handler)
    assert done.returncode == 1
    assert "Output in gone:\n  watching\n" in done.stdout
    assert "The handler never approves, so every event waits until NotBefore" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 of 2 traps survived; ignores Reboot."


# --- Wrong usage ----------------------------------------------------------------------------------


def test_a_program_that_exits_immediately() -> None:
    """The report has its exit code and its last line of output."""
    done = certify("--json", "--trap", "gone", "--", "sh", "-c", "echo no configuration; exit 3")
    seen = "exited with code 3 before its first poll: no configuration"
    assert failed(done) == {"gone": seen}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--", "./no-such-handler"), "cannot run './no-such-handler': program not found"),
        (("--trap", "unknown", "--", "true"), "'unknown' is not one of"),
        (("--json", "--badge", "--", "true"), "--json and --badge cannot be used together"),
        (("--jobs", "0", "--", "true"), "is not in the range"),
        (("--junit", "/nowhere/report.xml", "--", "true"), "there is no folder /nowhere"),
        ((), "Missing argument"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], message: str) -> None:
    """The error says what is allowed."""
    done = certify(*words)
    assert done.returncode == 2
    assert message in done.stderr


# --- Output ---------------------------------------------------------------------------------------


def test_a_table_and_a_badge() -> None:
    """The table has a row per trap and a summary line; the badge is one line."""
    traps = ("--trap", "scale-set-name", "--trap", "short-notice")
    done = certify(*traps, "--", *PLAIN)
    assert done.returncode == 0, done.stdout
    assert [name for name in (trap.name for trap in TRAPS) if name in done.stdout] == [
        "scale-set-name",
        "short-notice",
    ]
    assert done.stdout.splitlines()[-1] == "2 of 2 traps survived."
    assert sorted(line.split("(")[0].strip() for line in done.stderr.splitlines()) == [
        "survived  scale-set-name",
        "survived  short-notice",
    ]
    done = certify("--trap", "gone", "--badge", "--jobs", "1", "--", *PLAIN)
    assert done.stdout == "Fairwarning: 1 of 1 traps survived\n"


def test_the_page_describes_every_trap() -> None:
    """docs/certify.md has the texts of every trap."""
    page = (ROOT / "docs" / "certify.md").read_text("utf-8")
    rows = [f"| `{trap.name}` | {trap.happens} | {trap.good} |" for trap in TRAPS]
    assert [row for row in rows if row not in page] == []


def test_a_terminated_run_cleans_up() -> None:
    """After SIGTERM, its programs are stopped and its folder is removed."""
    with short_folder() as folder:
        words = [sys.executable, "-m", "fairwarning", "certify", "--", *PLAIN, "does nothing"]
        program = subprocess.Popen(words, env=os.environ | {"TMPDIR": str(folder)})
        try:
            wait_until(lambda: any("handler.py" in line for line in _command_lines(folder)))
        finally:
            program.send_signal(signal.SIGTERM)
            code = program.wait(LONGEST_SECONDS)
        assert code == 1
        wait_until(lambda: not _command_lines(folder))
        assert list(folder.iterdir()) == []


def _command_lines(folder: Path) -> list[str]:
    """Return the command lines of all processes that name this folder."""
    lines = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # processes come and go
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
            if entry.name.isdigit() and str(folder) in line:
                lines.append(line)
    return lines
