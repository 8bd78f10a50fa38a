"""kill -9 of a real process (P7): nothing acknowledged is lost, nothing is executed twice."""

import signal
from pathlib import Path

import pytest

from fairwarning.service import failpoints
from tests.campaigns import split
from tests.crash.killing import KillTest, kill_at_random


@pytest.mark.spec("E9")
@pytest.mark.parametrize("name", split(failpoints.NAMES, 4))
def test_a_kill_at_a_failpoint_loses_nothing(name: str, tmp_path: Path) -> None:
    """After a kill there and a restart, everything acknowledged took effect once."""
    test = KillTest(tmp_path / "fleet.db", seed=7)
    for _ in range(20):  # which requests find an event to approve depends on the speed of answers
        assert test.run(requests=60) == 0
        if test.approvals:
            break
    early = name.startswith(("start.", "stop."))
    code = test.run(f"{name}:{1 if early else 5}", requests=60)
    assert code == -signal.SIGKILL, f"the process did not reach {name}"
    test.check()
    assert test.operations
    assert test.approvals


@pytest.mark.spec("E9")
def test_random_kills_lose_nothing(tmp_path: Path) -> None:
    """After repeated kills under load, everything acknowledged took effect once."""
    test = kill_at_random(5, seed=3, folder=tmp_path)
    assert test.operations
