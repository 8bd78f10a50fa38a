"""Records of running programs, by which an agent ends the hooks of a killed predecessor (G6).

A killed agent cannot stop its hooks. The next agent runs them again, so it ends the old ones first.
A program that was started but not yet recorded when the agent was killed is not found.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from fairwarning.guest.agent import system
from fairwarning.guest.agent.actions import RunHook

GRACE_SECONDS = 2.0  # between terminating and killing a program
KILLED_SECONDS = 1.0  # a killed program exits at once, unless it is blocked in the kernel
_LOOK_SECONDS = 0.02

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HookProcess:
    """A program of a hook, the leader of its process group."""

    process: int
    mark: str  # of `system.process_mark`
    hook: str
    phase: str
    event: str

    def runs(self) -> bool:
        """Whether it, or what is left of its group, is surely still running."""
        event = f"{EVENT_VARIABLE}={self.event}"
        return system.is_same_group(self.process, self.mark, event)

    def __str__(self) -> str:
        return f"hook {self.hook} (event {self.event}, {self.phase}), process {self.process}"


EVENT_VARIABLE = "FAIRWARNING_EVENT_ID"
"""An environment variable that every hook has."""


class HookProcesses:
    """A folder with a file for each running program. They need not survive a power loss."""

    def __init__(self, state: Path | None) -> None:
        """Without a folder, record nothing."""
        self._folder = state / "running" if state else None

    @contextmanager
    def recorded(self, run: RunHook, process: int) -> Iterator[None]:
        """Record a program while it runs."""
        path = self._record(run, process) if self._folder else None
        try:
            yield
        finally:
            if path is not None:
                with suppress(OSError):
                    path.unlink()

    def _record(self, run: RunHook, process: int) -> Path | None:
        assert self._folder is not None
        mark = system.process_mark(process)
        record = HookProcess(process, mark, run.hook.name, str(run.phase), run.event.id)
        path = self._folder / str(process)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            system.write_file(path, json.dumps(asdict(record)).encode())
        except OSError as error:
            log.warning("cannot record %s in %s: %s", record, self._folder, error)
        return path

    def end_previous(self) -> None:
        """End the programs that a killed agent left behind; takes a few seconds at most."""
        records = self._read()
        running = [record for record in records.values() if record.runs()]
        for record in running:
            log.warning("%s: still runs after its agent was killed; ending it", record)
            system.end_group(record.process)
        for record in _still_running(running, GRACE_SECONDS):
            system.end_group(record.process, kill=True)
        running = _still_running(running, KILLED_SECONDS)
        for record in running:
            log.error("%s: does not end, and the hook may run twice; end it by hand", record)
        for path, record in records.items():
            if record not in running:
                with suppress(OSError):
                    path.unlink()

    def _read(self) -> dict[Path, HookProcess]:
        """Read all records; delete files that are none."""
        records = {}
        try:
            paths = list(self._folder.iterdir()) if self._folder else []
        except FileNotFoundError:
            return {}
        except OSError as error:
            log.warning("cannot read the records of running hooks: %s", error)
            return {}
        for path in paths:
            try:
                records[path] = _parse(path.read_bytes())
            except (OSError, ValueError, TypeError, RecursionError) as error:
                log.warning("%s is not a record of a running hook: %s", path, error)
                with suppress(OSError):
                    path.unlink()
        return records


def _parse(content: bytes) -> HookProcess:
    record = HookProcess(**json.loads(content))
    texts = (record.mark, record.hook, record.phase, record.event)
    if type(record.process) is not int or not all(isinstance(text, str) for text in texts):
        raise TypeError("wrong types")
    return record


def _still_running(records: list[HookProcess], seconds: float) -> list[HookProcess]:
    """Wait until these have ended; return those that have not."""
    end = time.monotonic() + seconds
    while (running := [record for record in records if record.runs()]) and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    return running
