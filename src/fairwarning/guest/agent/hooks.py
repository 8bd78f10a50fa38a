"""Run hooks: programs, HTTP requests and Python functions (G4).

A hook may hang, fork, flood its output or ignore signals. Whatever it does, the agent is not
blocked, and its end is reported exactly once and by its deadline (IG4). A program is terminated a
little earlier, so that it has exited by the deadline. `plan` decides which hooks run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from fairwarning.guest.agent.actions import RunHook, ShortenHook, StopHook
from fairwarning.guest.agent.event_state import NO_TIME_LEFT, OUT_OF_TIME
from fairwarning.guest.agent.hook_output import HookOutput
from fairwarning.guest.agent.hook_processes import GRACE_SECONDS, KILLED_SECONDS, HookProcesses
from fairwarning.guest.agent.log_format import event_fields
from fairwarning.guest.agent.work import HookWork, create_work, start_thread, to_printable
from fairwarning.guest.events import Phase, date_text

GRACE_SHARE = 0.25  # the grace period is at most this share of the remaining time
CLOSE_SECONDS = GRACE_SECONDS + KILLED_SECONDS + 1.0

_SHOWN_LINES = 20
_LOOK_SECONDS = 0.1  # at the deadline of a hook that waits for others


STOPPED = "was stopped"

Ended = Callable[[str, Phase, str, str], None]
"""Takes the event's id, the phase, the hook's name, and the failure (empty: success)."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class HookRunner:
    """Runs hooks concurrently; no method but `close` blocks."""

    def __init__(self, machine: str, ended: Ended, state: Path | None = None) -> None:
        """Call `ended` once for each `run`, from any thread.

        The folder `state` keeps the output of hooks and the records of running programs.
        """
        self._machine = machine
        self._ended = ended
        self._output = HookOutput(state)
        self._processes = HookProcesses(state)
        self._changed = threading.Condition()
        self._running: set[_Running] = set()
        self._overdue: set[_Running] = set()  # their work goes on, although their end is reported
        self._closed = False

    def run(self, run: RunHook) -> None:
        """Start a hook."""
        deadline = _monotonic(run.deadline)
        work = create_work(run, self._machine, deadline, self._processes)
        running = _Running(run, work, deadline)
        with self._changed:
            self._running.add(running)
            if self._closed:
                running.stop()
        try:
            start_thread(f"hook {run.hook.name}", self._supervise, running)
        except RuntimeError as error:  # the system cannot start another thread
            self._report(running, f"cannot be run: {error}", 0.0)

    def stop(self, stop: StopHook) -> None:
        """Stop a hook if it is running; it counts as failed."""
        with self._changed:
            for running in self._running:
                if running.matches(stop):
                    running.stop()

    def shorten(self, shorten: ShortenHook) -> None:
        """Make the deadline of a hook earlier; never later."""
        deadline = _monotonic(shorten.deadline)
        with self._changed:
            for running in self._running:
                if running.matches(shorten):
                    running.shorten(deadline)

    def problem(self) -> str:
        """Return a sentence if a hook works on after its end was reported; else an empty text."""
        with self._changed:
            for running in self._overdue:
                return _describe(running.run, "has not ended yet")
        return ""

    def close(self) -> None:
        """Stop all hooks, including later ones, and wait briefly until they have ended."""
        with self._changed:
            self._closed = True
            for running in self._running:
                running.stop()
            self._changed.wait_for(lambda: not self._running, CLOSE_SECONDS)

    def _supervise(self, running: _Running) -> None:
        began = time.monotonic()
        try:
            message = f"starts, deadline {date_text(running.run.deadline)}"
            self._log(logging.INFO, running.run, message, result="started")
            failed = self._wait_for_overdue(running) or running.execute(self._finished)
            with self._changed:
                if running.works:
                    self._overdue.add(running)
        except Exception as error:  # noqa: BLE001  (the end must be reported in any case)
            failed = f"cannot be run: {type(error).__name__}: {error}"
        self._report(running, failed, time.monotonic() - began)

    def _wait_for_overdue(self, running: _Running) -> str:
        """Wait until nothing is in the way of a hook; return the failure if that takes too long."""
        with self._changed:
            while in_the_way := [
                other.run for other in self._overdue if is_in_the_way(other.run, running.run)
            ]:
                if failed := running.failure():
                    return f"{failed}: {_describe(in_the_way[0], 'has not ended yet')}"
                self._changed.wait(_LOOK_SECONDS)
        return ""

    def _finished(self, running: _Running) -> None:
        with self._changed:
            self._overdue.discard(running)
            self._changed.notify_all()

    def _report(self, running: _Running, failed: str, seconds: float) -> None:
        run, output = running.run, running.output()
        lines = [line for line in map(to_printable, output.splitlines()) if line][-_SHOWN_LINES:]
        path = self._output.path(run) if lines else None
        shown = (f"; output: {path}" if path else "") + "".join(f"\n  | {line}" for line in lines)
        if failed:
            failed = to_printable(": ".join([failed, *lines[-1:]]))
            result = f"failed after {seconds:.1f} s: {failed}"
        else:
            result = f"is done after {seconds:.1f} s"
        self._log(
            *(logging.WARNING if failed else logging.INFO, run, f"{result}{shown}"),
            result="failed" if failed else "ok",
            seconds=round(seconds, 3),
        )
        try:
            self._ended(run.event.id, run.phase, run.hook.name, failed)
        except Exception:
            logger.exception("reporting the end of hook %s failed", run.hook.name)
        self._output.keep(run, _describe(run, result), output)  # an approval does not wait for it
        with self._changed:
            self._running.discard(running)
            self._changed.notify_all()

    def _log(self, level: int, run: RunHook, message: str, **fields: object) -> None:
        names = {"hook": run.hook.name, "phase": str(run.phase), **fields}
        extra = event_fields(run.event, self._machine, **names)
        logger.log(level, "%s", _describe(run, message), extra=extra)


def is_in_the_way(overdue: RunHook, run: RunHook) -> bool:
    """Whether a hook must not begin while the work of another one goes on after its deadline.

    A Python function cannot be stopped. It must not run beside itself, nor beside what undoes it:
    what prepares the machine for an event may be undone after another one as well.
    """
    phases = {overdue.phase, run.phase}
    same_event = overdue.event.id.upper() == run.event.id.upper()
    is_undo = Phase.OVER in phases and (
        Phase.SCHEDULED in phases or (same_event and Phase.STARTED in phases)
    )
    return overdue.hook.name == run.hook.name or is_undo


class _Running:
    """A running hook and its deadline."""

    def __init__(self, run: RunHook, work: HookWork, deadline: float) -> None:
        self.run = run
        self._work = work
        self._deadline = deadline
        self._changed = threading.Condition()
        self._result: str | None = None
        self._stop_reason = ""  # set when the hook is stopped
        self.works = False

    def matches(self, stop: StopHook | ShortenHook) -> bool:
        key = (self.run.event.id.upper(), self.run.phase, self.run.hook.name)
        return key == (stop.event.upper(), stop.phase, stop.hook)

    def output(self) -> str:
        return self._work.output()

    def shorten(self, deadline: float) -> None:
        with self._changed:
            self._deadline = min(self._deadline, deadline)
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stop_reason = STOPPED
            self._changed.notify_all()

    def failure(self) -> str:
        """Return why the hook cannot begin; an empty string if it can."""
        return self._stop_reason or ("" if self._seconds_left() > 0 else NO_TIME_LEFT)

    def execute(self, finished: Callable[[_Running], None]) -> str:
        """Run the hook; return the failure or an empty string. Returns by the deadline.

        The work may go on; `finished` is called at its end.
        """
        if failed := self.failure():
            return failed
        grace = min(self._work.grace_seconds, self._seconds_left() * GRACE_SHARE)
        self.works = True
        start_thread(f"work of hook {self.run.hook.name}", self._run_work, finished)
        with self._changed:
            while (left := self._seconds_left() - grace) > 0 and not (
                self._result is not None or self._stop_reason
            ):
                self._changed.wait(left)
            if self._result is not None:
                return self._result
            failure = self._stop_reason or OUT_OF_TIME
        self._work.terminate()
        if not self._wait_finished(min(grace, self._seconds_left())):
            self._work.kill()
            self._wait_finished(self._work.killed_seconds)
        return failure

    def _run_work(self, finished: Callable[[_Running], None]) -> None:
        try:
            result = self._work.run()
        except BaseException as error:  # noqa: BLE001  (`execute` waits for a result)
            result = f"cannot be run: {type(error).__name__}: {error}"
        self.works = False
        finished(self)
        with self._changed:
            self._result = result
            self._changed.notify_all()

    def _wait_finished(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._result is not None, seconds)

    def _seconds_left(self) -> float:
        return self._deadline - time.monotonic()


def _describe(run: RunHook, message: str) -> str:
    return f"hook {run.hook.name} (event {to_printable(run.event.id)}, {run.phase}) {message}"


def _monotonic(deadline: datetime) -> float:
    """Return a time of this machine's clock as one of the monotonic clock."""
    return time.monotonic() + (deadline - datetime.now(timezone.utc)).total_seconds()
