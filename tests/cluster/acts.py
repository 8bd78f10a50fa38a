"""What was really done to machines: a file that all drivers write, and that outlives them.

Nothing is done twice: a driver looks there first, and holds the impact while it looks and acts.
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

LOOK_AGAIN_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Act:
    """A line of the file."""

    impact: str
    word: str  # begun, done, failed
    at: float
    process: str


def acts(path: Path) -> list[Act]:
    """All that was begun and done so far, in order."""
    lines = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
    return [Act(impact, word, float(at), process) for impact, word, at, process in lines]


class FileDriver:
    """Begins an impact, takes a moment, is done; one in twenty fails.

    How long it takes and whether it works depends on the impact's id alone, so whoever repeats it
    does the same.
    """

    def __init__(self, path: Path, process: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._process = process

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Act, unless the file says that it was done."""
        luck = crc32(impact.id.encode())
        try:
            # A lock that the kernel lets go of when its holder dies; a paused one keeps it.
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, luck)
        except OSError:
            self._later(LOOK_AGAIN_SECONDS, lambda: self.carry_out(impact, report))
            return
        outcome = self._outcome(impact.id)
        if outcome is None:
            self._write(impact, "begun")
            self._later((luck >> 8) % 60 / 200, lambda: self._act(impact, luck, report))
        else:
            self._end(luck, lambda: report(impact, outcome))

    def _act(self, impact: Impact, luck: int, report: Report) -> None:
        error = "" if luck % 20 else "it would not boot"
        self._write(impact, "failed" if error else "done")
        self._end(luck, lambda: report(impact, error))

    def _end(self, luck: int, tell: Callable[[], None]) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, luck)
        self._later(0, tell)

    def _outcome(self, impact: str) -> str | None:
        """What was reported of it, or was going to be; None if it has not been done."""
        text = os.pread(self._file, os.fstat(self._file).st_size, 0).decode()
        if f"{impact} failed " in text:
            return "it would not boot"
        return "" if f"{impact} done " in text else None

    def _write(self, impact: Impact, word: str) -> None:
        line = f"{impact.id} {word} {time.time():.6f} {self._process}\n"
        os.write(self._file, line.encode())

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, call)
