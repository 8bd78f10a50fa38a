import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from fairwarning.core.commands import Restart
from fairwarning.service import failpoints
from tests.contract.shortcuts import approve, operate, polled
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
    """Whatever a test arms, the next begins without."""
    yield
    failpoints.arm(None)


def _run(setting: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "FAIRWARNING_FAILPOINT": setting}
    return run_python(PROGRAM, env=environment)


def test_a_whole_life_passes_every_failpoint_in_order() -> None:
    """Each place has a name that is really passed; and durable, visible, impact, answer it is."""
    passed: list[str] = []
    failpoints.arm(passed.append)
    with FleetHarness() as harness:
        polled(harness, "vm")
        operate(harness, Restart, "vm", "vm")
        passed.clear()
        approve(harness, "vm")
        assert passed == [
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
    assert set(passed) == set(failpoints.NAMES)


def test_nothing_happens_unless_armed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the setting a failpoint is a place like any other."""
    monkeypatch.delenv("FAIRWARNING_FAILPOINT", raising=False)
    failpoints.arm_from_environment()
    for name in failpoints.NAMES:
        failpoints.hit(name)


def test_an_unknown_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt failpoint would never be hit: the program says which there are."""
    monkeypatch.setenv("FAIRWARNING_FAILPOINT", "comit.before")
    with pytest.raises(SystemExit, match=r"comit\.before.*commit\.before"):
        failpoints.arm_from_environment()


@pytest.mark.parametrize(("setting", "rounds"), [("commit.before", 1), ("commit.after:3", 3)])
def test_the_process_dies_there(setting: str, rounds: int) -> None:
    """As by kill -9, the first time or the one that is asked for."""
    done = _run(setting)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == [str(n) for n in range(rounds)]


def test_only_the_one_that_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other places are passed unharmed, and the count is kept."""
    killed: list[tuple[int, int]] = []
    monkeypatch.setenv("FAIRWARNING_FAILPOINT", "ack.after:2")
    monkeypatch.setattr(os, "kill", lambda *how: killed.append(how))
    failpoints.arm_from_environment()
    for name in ("ack.before", "ack.after", "ack.before"):
        failpoints.hit(name)
    assert killed == []
    failpoints.hit("ack.after")
    assert killed == [(os.getpid(), signal.SIGKILL)]


def test_the_process_lives_if_it_never_gets_there() -> None:
    """A failpoint that is not passed as often kills nobody."""
    assert _run("commit.after:4").returncode == 0
