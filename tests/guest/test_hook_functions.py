"""Hooks that are functions of Python, which raise, hang or are missing."""

import sys
import threading
import time
from dataclasses import replace

import pytest

from fairwarning.guest.agent.config import HookKind, HookSettings
from fairwarning.guest.agent.event_state import NO_TIME_LEFT, OUT_OF_TIME
from fairwarning.guest.events import Phase
from tests.fixtures.waiting import LIMIT_SECONDS, on_this_machine
from tests.guest.hook_harness import EVENT, SOON_SECONDS, hook_harness

CALLS: list[tuple[object, ...]] = []
RELEASED = threading.Event()


def note(*arguments: object) -> str:
    """Record the arguments; the return value is ignored."""
    CALLS.append(arguments)
    return "ignored"


def fail(*_: object) -> None:
    """Raise an error."""
    raise KeyError("two\nlines")


def leave(*_: object) -> None:
    """Raise SystemExit, which must not end the agent."""
    sys.exit("bye")


def hang(*_: object) -> None:
    """Block until the test releases it."""
    assert RELEASED.wait(LIMIT_SECONDS)


async def asynchronous(*_: object) -> None:
    """An async function, which would never run."""


def calling(name: str, module: str = __name__) -> HookSettings:
    """Return a hook that calls a function of this file."""
    return HookSettings("main", Phase.SCHEDULED, HookKind.CALL, call=f"{module}:{name}")


@pytest.mark.spec("G4")
def test_input_of_a_function() -> None:
    """The event, the phase, the deadline, and whether it was cancelled."""
    CALLS.clear()
    with hook_harness() as harness:
        run = harness.run(calling("note"), cancelled=True)
        assert harness.failure() == ""
    assert CALLS == [(EVENT, Phase.SCHEDULED, run.deadline, True)]


@pytest.mark.parametrize(
    ("hook", "failed"),
    [
        (calling("fail"), "raised an error: KeyError: 'two\\nlines'"),
        (calling("leave"), "raised an error: SystemExit: bye"),
        (calling("asynchronous"), "is an async function"),
        (calling("missing"), "raised an error: AttributeError: module"),
        (
            calling("main", "no.such.module"),
            "raised an error: ModuleNotFoundError: No module named",
        ),
    ],
)
def test_a_failing_function(hook: HookSettings, failed: str) -> None:
    """The failure has the error's text."""
    with hook_harness() as harness:
        harness.run(hook)
        assert harness.failure().startswith(failed)


def test_a_late_function() -> None:
    """It cannot be stopped; its hook fails in time."""
    RELEASED.clear()
    with hook_harness() as harness:
        began = time.monotonic()
        harness.run(calling("hang"), seconds=0.3)
        assert harness.failure() == OUT_OF_TIME
        assert 0.3 <= time.monotonic() - began < on_this_machine(SOON_SECONDS)
        RELEASED.set()


@pytest.mark.spec("G4")
def test_a_function_that_hangs_runs_neither_beside_itself_nor_beside_its_undo() -> None:
    """IG1: they wait for its end, and fail at their own deadlines if it does not come."""
    RELEASED.clear()
    CALLS.clear()
    again, undo = calling("note"), replace(calling("note"), name="back", phase=Phase.OVER)
    with hook_harness() as harness:
        harness.run(calling("hang"), seconds=0.3)
        assert harness.failure() == OUT_OF_TIME
        for hook in (again, undo):
            harness.run(hook, seconds=0.3)
        failures = [failed for *_, failed in harness.results()[1:]]
        assert all(failed.startswith(f"{NO_TIME_LEFT}: hook main") for failed in failures)
        assert harness.hooks.problem().startswith("hook main (event 602D9444")
        harness.run(replace(again, name="other"))
        assert [failed for *_, failed in harness.results()[3:]] == [""]
        for hook in (again, undo):
            harness.run(hook)
        assert len(CALLS) == 1
        RELEASED.set()
        assert [failed for *_, failed in harness.results()[3:]] == ["", "", ""]
        assert harness.hooks.problem() == ""
