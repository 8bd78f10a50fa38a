"""What is remembered of an impact: a file of lines, locked by whoever works on the impact.

`begun` is on the disk before the program is started, `ended` before anybody hears of it. Between
the two the program notes its number and its birth, before it becomes what the operator named.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from fairwarning.machines.command.program import birth

KEPT_DAYS = 30  # nobody asks for longer: an impact is given up after 7 days at most
_DAY_SECONDS = 24 * 3600
_FOLDER_OWNER_ONLY = 0o700
_OWNER_ONLY = 0o600
_LOOK_SECONDS = 0.05
_TIDIED = "tidied"


class ImpactResult(NamedTuple):
    """Why an impact failed (empty: it was carried out), and the last lines its program said."""

    failed: str
    said: Sequence[str] = ()
    stopped: bool = False  # somebody ended whoever carried it out; never recorded


class CommandRecord:
    """What became of an impact so far; no other process has it before this one has ended."""

    def __init__(self, path: Path, meanwhile: Callable[[], None]) -> None:
        """`meanwhile` is called now and again while another process has it."""
        path.parent.mkdir(mode=_FOLDER_OWNER_ONLY, parents=True, exist_ok=True)
        self._file = _lock(path, meanwhile)
        self.begun = False
        self.program: tuple[int, str] | None = None
        self.ended: ImpactResult | None = None
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):  # what was cut off was not yet written
                self._read(json.loads(line))
        if not self.begun:
            _sync(path.parent)  # or else a new file may be gone after a power loss

    def _read(self, line: object) -> None:
        match line:
            case {"begun": _}:
                self.begun, self.program = True, None
            case {"program": [int(number), str(born)]}:
                self.program = (number, born)
            case {"ended": {"failed": str(failed), "said": [*said]}}:
                self.ended = ImpactResult(failed, said)

    def begin(self, impact: dict[str, Any]) -> None:
        """A program is about to be started."""
        self._write({"begun": {**impact, "at": int(time.time())}})
        os.fsync(self._file)

    def note_program(self) -> None:
        """The calling process is the program. A power loss would end both, so no sync."""
        self._write({"program": [os.getpid(), birth(os.getpid())]})

    def end(self, ending: ImpactResult) -> ImpactResult:
        """It is over. That is so on a full disk as well: then only this process knows."""
        with suppress(OSError):
            self._write(
                {"ended": {"failed": ending.failed, "said": ending.said, "at": int(time.time())}}
            )
            os.fsync(self._file)
        return ending

    def _write(self, line: dict[str, Any]) -> None:
        content = b"\n" + json.dumps(line).encode() + b"\n"  # the line before may be cut off
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
            time.sleep(_LOOK_SECONDS)
            continue
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file)):
                return file
        os.close(file)  # it was tidied away this very moment


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def tidy(folder: Path) -> None:
    """Once a day, remove what is so old that nobody asks for it."""
    mark, now = folder / _TIDIED, time.time()
    if mark.exists() and now - mark.stat().st_mtime < _DAY_SECONDS:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if now - entry.stat().st_mtime > KEPT_DAYS * _DAY_SECONDS:
                _remove(Path(entry.path))
    mark.touch()


def _remove(path: Path) -> None:
    with suppress(OSError), path.open("rb") as file:  # another one tidies too, or has it in use
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
