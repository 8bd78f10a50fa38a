import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from fairwarning.core.commands import Restart
from fairwarning.service import failpoints
from tests.fixtures.fleet import FleetHarness
from tests.fixtures.programs import run_python

PROGRAM = """
from fairwarning.service import failpoints
failpoints.arm_from_environment()
for n in range(3):
    print(n, flush=True)
    failpoints.hit("commit.before")
    failpoints.hit("commit.after")
"""


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """Disarm failpoints after each test."""
    yield
    failpoints.arm(None)


def _run(setting: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "FAIRWARNING_FAILPOINT": setting}
    return run_python(PROGRAM, env=environment)


def test_every_failpoint_is_reached_in_order() -> None:
    """Every failpoint is reached, in the order commit, publish, impact, acknowledge."""
    reached: list[str] = []
    failpoints.arm(reached.append)
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        harness.operate(Restart, "vm", "vm")
        reached.clear()
        harness.approve("vm")
        assert reached == [
            "batch.taken",
            "commit.before",
            "commit.after",
            "publish.after",
            "impact.before",
            "impact.after",
            "ack.before",
            "ack.after",
        ]
        harness.advance(60)
        harness.restart()
    assert set(reached) == set(failpoints.NAMES)


def test_nothing_happens_unless_armed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the setting, failpoints have no effect."""
    monkeypatch.delenv("FAIRWARNING_FAILPOINT", raising=False)
    failpoints.arm_from_environment()
    for name in failpoints.NAMES:
        failpoints.hit(name)


def test_an_unknown_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt failpoint is refused with the list of names."""
    monkeypatch.setenv("FAIRWARNING_FAILPOINT", "comit.before")
    with pytest.raises(SystemExit, match=r"comit\.before.*commit\.before"):
        failpoints.arm_from_environment()


@pytest.mark.parametrize(("setting", "rounds"), [("commit.before", 1), ("commit.after:3", 3)])
def test_the_process_kills_itself_at_the_failpoint(setting: str, rounds: int) -> None:
    """The process kills itself with SIGKILL the first time, or at the requested count."""
    done = _run(setting)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == [str(n) for n in range(rounds)]


def test_only_the_named_failpoint_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other failpoints have no effect, and the count is exact."""
    killed: list[tuple[int, int]] = []
    monkeypatch.setenv("FAIRWARNING_FAILPOINT", "ack.after:2")
    monkeypatch.setattr(os, "kill", lambda *arguments: killed.append(arguments))
    failpoints.arm_from_environment()
    for name in ("ack.before", "ack.after", "ack.before"):
        failpoints.hit(name)
    assert killed == []
    failpoints.hit("ack.after")
    assert killed == [(os.getpid(), signal.SIGKILL)]


def test_an_unreached_failpoint_has_no_effect() -> None:
    """A failpoint that is not reached often enough has no effect."""
    assert _run("commit.after:4").returncode == 0
