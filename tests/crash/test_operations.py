"""kill -9 of `fairwarning up` while Azure's tools tell it what to do (P7)."""

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash import operations
from tests.crash.killed_service import operation_url
from tests.crash.killing import Dead
from tests.crash.operations import Asked, Story
from tests.fixtures.http import Response

PLACES = ("commit.before:2", "commit.after:2", "impact.after:1", "ack.before:3", "report.before:1")


@pytest.mark.spec("C1", "E9")
def test_what_was_acknowledged_right_before_a_kill_is_kept(tmp_path: Path) -> None:
    """202, then kill -9: the same token, authority and URL are good, and the operation ends."""
    with Story(tmp_path, seed=1) as story:
        for asked in (
            Asked("restart", "vm_0"),
            Asked("delete", "vm_1"),
            Asked("scale", capacity=3),
        ):
            life, known = story.begin()
            reply = story.ask(life, known, asked)
            assert life.end(signal.SIGKILL) == -signal.SIGKILL
            assert operation_url(reply)
        life, _ = story.begin()
        assert life.end(signal.SIGINT) == 0
        assert story.kept == 3


@pytest.mark.spec("C1", "E9")
def test_death_at_a_failpoint_keeps_operations_whole(tmp_path: Path) -> None:
    """What was acknowledged is there and ends; what was not is there or not, never half."""
    with Story(tmp_path, seed=2) as story:
        for place in PLACES:
            life, known = story.begin(place)
            life.arm_failpoint()
            story.load(life, known, requests=40)
            assert life.end() == -signal.SIGKILL, f"it did not come to {place}"
        life, _ = story.begin()
        assert life.end(signal.SIGINT) == 0
        assert story.kept


@pytest.mark.spec("C1", "E9")
def test_death_at_random_keeps_operations_whole(tmp_path: Path) -> None:
    """Killed at any time under load: nothing that was acknowledged is lost."""
    assert operations.kill_at_random(3, seed=3, folder=tmp_path).kept


@pytest.mark.spec("C1", "E9")
def test_a_deployment_is_whole_or_can_be_sent_again(tmp_path: Path) -> None:
    """Killed in the middle of a template: either it was acknowledged and is there, or a repeat is.

    It writes five times: four resources, and itself.
    """
    with Story(tmp_path, seed=4) as story:
        told: Response | None = None
        for number, place in enumerate(("commit.after:2", "commit.before:5", "")):
            life, known = story.begin(place, judge=False)
            if number:
                assert operations.judge_deployment(life, known, number - 1, told)
            life.arm_failpoint()
            with suppress(Dead):
                told = operations.deploy(life, known, number)
            assert bool(told) == (not place)
            assert life.end(0 if place else signal.SIGKILL) == -signal.SIGKILL
        life, known = story.begin(judge=False)
        assert not operations.judge_deployment(life, known, number, told)
        assert life.end(signal.SIGINT) == 0
