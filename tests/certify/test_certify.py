"""`fairwarning certify`: what it finds, and what it does not find where there is nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fairwarning.testing.certify.traps import TRAPS
from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.waiting import wait_until

pytestmark = [needs_namespaces, pytest.mark.spec("O11")]

ROOT = Path(__file__).parents[2]
NAIVE = (sys.executable, str(ROOT / "examples" / "naive-handler" / "handler.py"))
FLAWED = (sys.executable, str(Path(__file__).with_name("flawed.py")))
LONGEST_SECONDS = 420.0  # nothing takes as long on a machine that does little else
AGENT = """
state = "agent"

[[hook]]
name = "save"
phase = "scheduled"
command = ["sleep", "1"]
"""


def certify(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The real program, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "fairwarning", "certify", *words],
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
        env=os.environ | environment,
    )


def verdicts(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """What `--json` says of each trap."""
    told = json.loads(done.stdout)
    found: dict[str, dict[str, Any]] = {one["name"]: one for one in told["traps"]}
    assert told["survived"] + told["failed"] == len(found)
    assert done.returncode == (1 if told["failed"] else 0), done.stderr
    return found


def failed(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The traps it fell into, and what was seen."""
    return {name: one["seen"] for name, one in verdicts(done).items() if not one["survived"]}


# --- Handlers that are right ----------------------------------------------------------------------

each_trap = pytest.mark.parametrize("trap", [trap.name for trap in TRAPS])


@pytest.mark.spec("G1", "G3", "G5", "G6")
def test_the_agent_survives_all(tmp_path: Path) -> None:
    """The bundled agent, with a hook, survives every trap; they are run side by side."""
    config = tmp_path / "agent.toml"
    config.write_text(AGENT)
    run = f'cd "$STATE_DIRECTORY" && exec {sys.executable} -m fairwarning agent run --config '
    done = certify("--json", "--", "sh", "-c", run + str(config))
    assert failed(done) == {}
    assert list(verdicts(done)) == [trap.name for trap in TRAPS]


@pytest.mark.campaign
@each_trap
def test_a_plain_handler_survives_all(trap: str) -> None:
    """So does a handler that polls every second and takes some seconds to prepare."""
    assert failed(certify("--json", "--trap", trap, "--", *FLAWED)) == {}


# --- Handlers that are not ------------------------------------------------------------------------

FAULTS = {
    "scale-set-name": "did not approve it",
    "other-machine": "it approved an event of web_0, which is not its own",
    "two-resources": "it approved at once",
    "cancelled-event": "it ended with exit code 0: Reboot has begun",
    "empty-body": "it ended with exit code 1: json.decoder.JSONDecodeError",
    # The other way round when its approval and the end of its power are one moment.
    "reboot-in-the-middle": "did not approve it|it ended with exit code 0: Reboot has begun",
}


@pytest.mark.campaign
@each_trap
def test_each_fault_of_the_naive_handler_is_found(trap: str, tmp_path: Path) -> None:
    """Each by its own trap. Polling every second, the handler reads of an eviction in time."""
    report = tmp_path / "report.xml"
    options = ("--json", "--junit", str(report), "--trap", trap)
    seen = failed(certify(*options, "--", *NAIVE, NAIVE_SECONDS="1"))
    assert list(seen) == [trap] * (trap in FAULTS)
    assert all(re.search(FAULTS[name], why) for name, why in seen.items()), seen
    suite = ET.parse(report).getroot()
    assert suite.get("tests") == "1"
    (case,) = suite.iter("testcase")
    assert case.get("name") == trap
    assert (case.find("failure") is not None) == bool(seen)


@pytest.mark.campaign
def test_a_handler_that_polls_once_a_minute() -> None:
    """It misses short notices, and its other faults are still found."""
    traps = ("--trap", "short-notice", "--trap", "empty-body")  # all would take three minutes
    slow = failed(certify("--json", *traps, "--", *NAIVE))
    assert "the notice passed unread" in slow.pop("short-notice")
    assert FAULTS["empty-body"] in slow.pop("empty-body")
    assert slow == {}


FLAWS = [
    ("reads the first only", "new-event-while-busy", "did not approve it in 8 s"),
    ("always reads NotBefore", "started-without-notice", "it ended with exit code 1: Value"),
    ("takes a pause for the end", "freeze", "it ended with exit code 1: the machine must"),
    ("dies of 429", "throttled", "it ended with exit code 1: urllib.error.HTTPError"),
    ("retries at once", "throttled", "more than 5 requests a second"),
    ("dies of 410", "gone", "it ended with exit code 1: urllib.error.HTTPError"),
    ("is impatient", "slow-answer", "it ended with exit code 1: TimeoutError"),
    ("expects numbers to grow", "counter-restart", "did not approve it in 8 s"),
    ("approves over and over", "duplicate-document", "it approved the same event"),
    ("notes what is not done", "reboot-in-the-middle", "did not approve it in 8 s"),
    ("hammers", "other-machine", "more than 5 requests a second"),
    ("never approves", "scale-set-name", "did not approve it in 8 s"),
    ("does nothing", "gone", "it asked for nothing in 60 s"),
    ("forgets the header", "gone", "in 60 s it got no document; it was refused"),
]
QUICKLY_FOUND = ("dies of 410",)  # also part of `make test`


@pytest.mark.parametrize(
    ("flaw", "trap", "seen"),
    [
        pytest.param(*case, marks=() if case[0] in QUICKLY_FOUND else pytest.mark.campaign)
        for case in FLAWS
    ],
)
def test_what_each_trap_is_for(flaw: str, trap: str, seen: str) -> None:
    """A handler with one flaw falls into the trap for it, and the report says why."""
    found = failed(certify("--json", "--prepare", "8", "--trap", trap, "--", *FLAWED, flaw))
    assert list(found) == [trap]
    assert seen in found[trap]


@pytest.mark.campaign
def test_who_never_approves_is_told_so() -> None:
    """It may be meant; then it is not held against it."""
    traps = ("--trap", "scale-set-name", "--trap", "gone")
    done = certify(*traps, "--prepare", "5", "--", *FLAWED, "never approves")
    assert done.returncode == 1
    assert "It never approves: it waits for NotBefore" in done.stdout
    done = certify("--no-approve", "--json", "--", *FLAWED, "never approves")
    assert failed(done) == {}
    assert json.loads(done.stdout)["notes"] == []


# --- What is no handler ---------------------------------------------------------------------------


def test_a_program_that_ends_at_once() -> None:
    """It is told with what, and what it said last."""
    done = certify("--json", "--trap", "gone", "--", "sh", "-c", "echo no configuration; exit 3")
    said = "it ended with exit code 3 before it asked for anything: no configuration"
    assert failed(done) == {"gone": said}


def test_a_program_that_is_not_there() -> None:
    """Nothing is run at all."""
    done = certify("--", "./no-such-handler")
    assert done.returncode == 2
    assert "cannot run './no-such-handler': there is no such program" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--trap", "door", "--", "true"), "'door' is not one of"),
        (("--json", "--badge", "--", "true"), "take --json or --badge, not both"),
        (("--jobs", "0", "--", "true"), "is not in the range"),
        ((), "Missing argument"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], said: str) -> None:
    """It says what is allowed."""
    done = certify(*words)
    assert done.returncode == 2
    assert said in done.stderr


# --- What is told ---------------------------------------------------------------------------------


def test_a_table_and_a_badge() -> None:
    """People get a row a trap and a line at the end; a README a line."""
    traps = ("--trap", "scale-set-name", "--trap", "short-notice")
    done = certify(*traps, "--", *FLAWED)
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
    done = certify(*traps, "--badge", "--jobs", "1", "--", *FLAWED)
    assert done.stdout == "Fairwarning: 2 of 2 traps survived\n"


def test_the_page_tells_of_every_trap() -> None:
    """What happens, and what a good handler does, as the traps have it."""
    page = (ROOT / "docs" / "certify.md").read_text("utf-8")
    rows = [f"| `{trap.name}` | {trap.happens} | {trap.good} |" for trap in TRAPS]
    assert [row for row in rows if row not in page] == []


def test_it_leaves_nothing_behind() -> None:
    """Ended in the middle, it takes its programs and its folder with it."""
    with _folder() as folder:
        words = [sys.executable, "-m", "fairwarning", "certify", "--", *FLAWED, "does nothing"]
        program = subprocess.Popen(words, env=os.environ | {"TMPDIR": str(folder)})
        try:
            wait_until(lambda: any("flawed.py" in one for one in _commands(folder)))
        finally:
            program.send_signal(signal.SIGTERM)
            code = program.wait(LONGEST_SECONDS)
        assert code == 1
        wait_until(lambda: not _commands(folder))
        assert list(folder.iterdir()) == []


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fwt-") as name:
        yield Path(name)


def _commands(folder: Path) -> list[str]:
    """Of every process that runs for a service in this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # they come and go
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
            if entry.name.isdigit() and str(folder) in line:
                found.append(line)
    return found
