"""kill -9 of a real process (P7): nothing acknowledged is lost, nothing is done twice."""

import signal
from pathlib import Path

import pytest

from fairwarning.service import failpoints
from tests.crash.killing import Story, kill_at_random


@pytest.mark.spec("E9")
@pytest.mark.parametrize("name", failpoints.NAMES)
def test_death_at_a_failpoint_loses_nothing(name: str, tmp_path: Path) -> None:
    """Killed at this place, and started again: what was acknowledged is there, once."""
    story = Story(tmp_path / "fleet.db", seed=7)
    assert story.live(requests=60) == 0
    early = name.startswith(("start.", "stop."))
    code = story.live(f"{name}:{1 if early else 5}", requests=60)
    assert code == -signal.SIGKILL, f"the process did not come to {name}"
    story.judge()
    assert story.operations
    assert story.approvals


@pytest.mark.spec("E9")
def test_death_at_random_loses_nothing(tmp_path: Path) -> None:
    """Killed again and again under load: what was acknowledged is there, once."""
    story = kill_at_random(5, seed=3, folder=tmp_path)
    assert story.operations
