"""A log of all actions on machines, written by all drivers, that outlives them.

A driver executes no impact twice: it locks the impact and reads the log first.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from fairwarning.core.model import Impact
from fairwarning.machines.driver import Report

POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Action:
    """A line of the log."""

    impact: str
    word: str  # begun, done, failed
    at: float
    process: str


def read_actions(path: Path) -> list[Action]:
    """Return all actions so far, in order."""
    lines = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
    return [Action(impact, word, float(at), process) for impact, word, at, process in lines]


class FileDriver:
    """Begins an impact, waits a moment, and finishes it; one in twenty fails.

    Duration and outcome depend on the impact's id alone, so a repetition has the same result.
    """

    def __init__(self, path: Path, process: str, *, fails: bool = True) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._process = process
        self._fails = fails

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Execute the impact, unless the log contains its outcome."""
        digest = crc32(impact.id.encode())
        try:
            # The kernel releases the lock when its holder dies; a paused holder keeps it.
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, digest)
        except OSError:
            self._later(POLL_SECONDS, lambda: self.carry_out(impact, report))
            return
        outcome = self._outcome(impact.id)
        if outcome is None:
            self._write(impact, "begun")
            self._later((digest >> 8) % 60 / 200, lambda: self._execute(impact, digest, report))
        else:
            self._finish(digest, lambda: report(impact, outcome))

    def _execute(self, impact: Impact, digest: int, report: Report) -> None:
        error = "it would not boot" if self._fails and digest % 20 == 0 else ""
        self._write(impact, "failed" if error else "done")
        self._finish(digest, lambda: report(impact, error))

    def _finish(self, digest: int, report: Callable[[], None]) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, digest)
        self._later(0, report)

    def _outcome(self, impact: str) -> str | None:
        """Return the logged outcome of an impact; None if there is none."""
        text = os.pread(self._file, os.fstat(self._file).st_size, 0).decode()
        if f"{impact} failed " in text:
            return "it would not boot"
        return "" if f"{impact} done " in text else None

    def _write(self, impact: Impact, word: str) -> None:
        line = f"{impact.id} {word} {time.time():.6f} {self._process}\n"
        os.write(self._file, line.encode())

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, call)
