"""Runs hooks: programs, HTTP requests and Python functions (G4).

A hook may hang, fork, flood or ignore what it is told. Whatever it does, whoever asked for it is
not kept waiting, hears of its end once, and does so by its deadline (IG4). A program is asked to
end a little earlier, so that by then it has ended. What runs when stands in `plan`.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from fairwarning.guest.agent.plan import RunHook, ShortenHook, StopHook
from fairwarning.guest.agent.work import (
    GRACE_SECONDS,
    KILLED_SECONDS,
    HookWork,
    clean,
    thread,
    work,
)
from fairwarning.guest.watch import Phase

GRACE_SHARE = 0.25  # ... but no more than this part of a short time
CLOSE_SECONDS = GRACE_SECONDS + KILLED_SECONDS + 1.0

_SHOWN_LINES = 20


NO_TIME_LEFT = "no time left"
OUT_OF_TIME = "ran out of time"
STOPPED = "was stopped"

Ended = Callable[[str, Phase, str, str], None]
"""Takes the event's id, the phase, the hook's name, and why it failed (empty: it did not)."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class HookRunner:
    """Runs hooks beside each other; whoever asks is never kept waiting."""

    def __init__(
        self, me: str, ended: Ended, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """`ended` is called once for each `run`, from any thread."""
        self._me = me
        self._ended = ended
        self._now = now
        self._changed = threading.Condition()
        self._running: set[_Running] = set()
        self._closed = False

    def run(self, run: RunHook) -> None:
        """Begin with a hook."""
        ends = time.monotonic() + (run.ends - self._now()).total_seconds()
        one = _Running(run, work(run, self._me, ends), ends)
        with self._changed:
            self._running.add(one)
            if self._closed:
                one.stop()
        try:
            thread(f"hook {run.hook.name}", self._see_through, one)
        except RuntimeError as error:  # the system gives us no more threads
            self._report(one, f"cannot be run: {error}", 0.0)

    def stop(self, stop: StopHook) -> None:
        """End a hook, if it runs; it counts as failed."""
        with self._changed:
            for one in self._running:
                if one.answers_to(stop):
                    one.stop()

    def shorten(self, shorten: ShortenHook) -> None:
        """Have a hook end earlier than it was told; never later."""
        ends = time.monotonic() + (shorten.ends - self._now()).total_seconds()
        with self._changed:
            for one in self._running:
                if one.answers_to(shorten):
                    one.shorten(ends)

    def close(self) -> None:
        """Stop all, and whatever is asked for from now on, and wait briefly until they ended."""
        with self._changed:
            self._closed = True
            for one in self._running:
                one.stop()
            self._changed.wait_for(lambda: not self._running, CLOSE_SECONDS)

    def _see_through(self, one: "_Running") -> None:
        began = time.monotonic()
        try:
            _log(logging.INFO, one.run, f"begins, has until {one.run.ends.isoformat()}")
            failed = one.go()
        except Exception as error:  # noqa: BLE001  (its end must be told, whatever happened)
            failed = f"cannot be run: {type(error).__name__}: {error}"
        self._report(one, failed, time.monotonic() - began)

    def _report(self, one: "_Running", failed: str, seconds: float) -> None:
        run, said = one.run, one.said()
        if failed:
            lines = [line for line in map(clean, said.splitlines()) if line][-_SHOWN_LINES:]
            failed = clean(": ".join([failed, *lines[-1:]]))
            shown = "".join(f"\n  | {line}" for line in lines)
            _log(logging.WARNING, run, f"failed after {seconds:.1f} s: {failed}{shown}")
        else:
            _log(logging.INFO, run, f"is done after {seconds:.1f} s")
        try:
            self._ended(run.event.id, run.phase, run.hook.name, failed)
        except Exception:
            logger.exception("nobody took note of the end of hook %s", run.hook.name)
        with self._changed:
            self._running.discard(one)
            self._changed.notify_all()


class _Running:
    """A hook on its way, and the one who looks at the clock for it."""

    def __init__(self, run: RunHook, work: HookWork, ends: float) -> None:
        self.run = run
        self._work = work
        self._ends = ends
        self._changed = threading.Condition()
        self._result: str | None = None
        self._cut = ""  # why somebody ended it

    def answers_to(self, stop: StopHook | ShortenHook) -> bool:
        mine = (self.run.event.id.upper(), self.run.phase, self.run.hook.name)
        return mine == (stop.event.upper(), stop.phase, stop.hook)

    def said(self) -> str:
        return self._work.said()

    def shorten(self, ends: float) -> None:
        with self._changed:
            self._ends = min(self._ends, ends)
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._cut = STOPPED
            self._changed.notify_all()

    def go(self) -> str:
        """Why it failed, or nothing. Returns by the deadline, whatever the hook does."""
        left = self._left()
        if self._cut or left <= 0:
            return self._why(NO_TIME_LEFT)
        grace = min(self._work.grace_seconds, left * GRACE_SHARE)
        thread(f"work of hook {self.run.hook.name}", self._do)
        with self._changed:
            while (left := self._left() - grace) > 0 and not (self._done() or self._cut):
                self._changed.wait(left)
            if self._result is not None:
                return self._result
            why = self._why(OUT_OF_TIME)
        self._work.end()
        if not self._finished(min(grace, self._left())):
            self._work.kill()
            self._finished(self._work.killed_seconds)
        return why

    def _why(self, otherwise: str) -> str:
        return self._cut or otherwise

    def _do(self) -> None:
        try:
            result = self._work.do()
        except BaseException as error:  # noqa: BLE001  (whatever it is, somebody waits for us)
            result = f"cannot be run: {type(error).__name__}: {error}"
        with self._changed:
            self._result = result
            self._changed.notify_all()

    def _done(self) -> bool:
        return self._result is not None

    def _finished(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(self._done, seconds)

    def _left(self) -> float:
        return self._ends - time.monotonic()


def _log(level: int, run: RunHook, what: str) -> None:
    event = clean(run.event.id)
    logger.log(level, "hook %s (event %s, %s) %s", run.hook.name, event, run.phase, what)
