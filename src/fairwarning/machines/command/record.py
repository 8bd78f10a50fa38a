"""The record of an impact: a file of JSON lines, locked by the process that executes the impact.

The line `begun` is on disk before the program starts, and the line `ended` before the result is
reported. In between, the child process writes its id and start time before it executes the program.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from fairwarning.machines.command.program import start_time

KEPT_DAYS = 30  # long enough: the service gives an impact up after 7 days at most
_DAY_SECONDS = 24 * 3600
_FOLDER_OWNER_ONLY = 0o700
_OWNER_ONLY = 0o600
_POLL_SECONDS = 0.05
_CLEANUP_MARKER = "tidied"


class ImpactResult(NamedTuple):
    """Why an impact failed (empty: it succeeded), and the last lines of its program's output."""

    error: str
    output: Sequence[str] = ()
    stopped: bool = False  # the keeper was asked to end; never recorded


class CommandRecord:
    """The record of one impact, locked until this process ends."""

    def __init__(self, path: Path, meanwhile: Callable[[], None]) -> None:
        """Call `meanwhile` repeatedly while another process holds the lock."""
        path.parent.mkdir(mode=_FOLDER_OWNER_ONLY, parents=True, exist_ok=True)
        self._file = _lock(path, meanwhile)
        self.started = False
        self.program: tuple[int, str] | None = None
        self.result: ImpactResult | None = None
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):  # an incomplete line, interrupted by a crash
                self._read(json.loads(line))
        if not self.started:
            _sync(path.parent)  # or a power loss could remove a new file

    def _read(self, line: object) -> None:
        match line:
            case {"begun": _}:
                self.started, self.program = True, None
            case {"program": [int(process), str(started)]}:
                self.program = (process, started)
            case {"ended": {"failed": str(error), "said": [*output]}}:
                self.result = ImpactResult(error, output)

    def start(self, impact: dict[str, Any]) -> None:
        """Record that a program is about to start."""
        self._write({"begun": {**impact, "at": int(time.time())}})
        os.fsync(self._file)

    def note_program(self) -> None:
        """Record the calling process as the program. No sync: a power loss ends it as well."""
        self._write({"program": [os.getpid(), start_time(os.getpid())]})

    def finish(self, result: ImpactResult) -> ImpactResult:
        """Record the result. If the disk is full, only this process knows it."""
        with suppress(OSError):
            self._write(
                {"ended": {"failed": result.error, "said": result.output, "at": int(time.time())}}
            )
            os.fsync(self._file)
        return result

    def _write(self, line: dict[str, Any]) -> None:
        content = b"\n" + json.dumps(line).encode() + b"\n"  # the last line may be incomplete
        while content:
            content = content[os.write(self._file, content) :]


def _lock(path: Path, meanwhile: Callable[[], None]) -> int:
    while True:
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, _OWNER_ONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            meanwhile()
            time.sleep(_POLL_SECONDS)
            continue
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file)):
                return file
        os.close(file)  # it was removed just now


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_old_records(folder: Path) -> None:
    """Remove records that were `KEPT_DAYS` old at the last cleanup, once a day.

    The clock may be wrong, and the service may hand over what was executed an hour ago: nothing is
    removed by a clock that jumps, nor at the first cleanup.
    """
    marker, now = folder / _CLEANUP_MARKER, time.time()
    last = marker.stat().st_mtime if marker.exists() else 0.0
    if 0 <= now - last < _DAY_SECONDS:
        return
    if last <= now:
        with os.scandir(folder) as entries:
            for entry in entries:
                if last - entry.stat().st_mtime > KEPT_DAYS * _DAY_SECONDS:
                    _remove(Path(entry.path))
    marker.touch()


def _remove(path: Path) -> None:
    with suppress(OSError), path.open("rb") as file:  # already removed, or locked by its user
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
