"""The agent's journal: one line per step, durable before the step is taken (G6).

On a full disk the agent continues with what is in memory. Lines that are missing in the file are
written in their order when there is space again, so the file is always a state that once was true:
an agent that starts from it may run a hook again, but approves nothing early.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from fairwarning.core.errors import Unavailable
from fairwarning.guest.agent import system
from fairwarning.guest.agent.actions import AgentJournalEntry
from fairwarning.guest.agent.hooks_folder import PHASES
from fairwarning.guest.agent.reserve import DiskReserve, is_disk_full
from fairwarning.guest.events import from_json, to_json

_FILE = "journal"
_NEW = "journal.new"
_LOCK_SECONDS = 2.0
_LOCK_RETRY_SECONDS = 0.05
_COMPACT_LINES = 1000  # compact a longer journal, and later at twice what is left
_LINE_BYTES = 4 * 1024 * 1024  # more than an event with 10,000 machines
_REPORTED_LINES = 10  # damaged lines that are logged one by one

log = logging.getLogger(__name__)


class AgentJournal:
    """An append-only file of lines. An incomplete last line counts as not written."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._new = folder / _NEW
        self._file = -1
        self._lock: int | None = None
        self._entries: list[AgentJournalEntry] = []  # all that the file has, or is to have
        self._compact_at = _COMPACT_LINES
        self._is_outdated = False  # the file lacks more than what is missing
        self._missing: list[AgentJournalEntry] = []  # entries that are not in the file yet
        self._reserve = DiskReserve(folder)
        self.failing = False
        """Whether the last attempt to write failed."""

    def open(self) -> list[AgentJournalEntry]:
        """Lock and compact the journal; return its entries for events not yet forgotten."""
        try:
            self._use_reserve(self._prepare)
            self._entries = _current(self._read())
            try:
                self._use_reserve(self._rewrite)
            except OSError as error:
                if not is_disk_full(error):
                    raise
                self._report_failure(error)
        except OSError as error:
            text = f"the agent cannot open its journal in {self._path.parent}: {error}"
            raise Unavailable("NoJournal", text) from error
        self._reserve.renew()
        _report_interrupted(self._entries)
        return list(self._entries)

    def _prepare(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._acquire_lock()

    def _acquire_lock(self) -> None:
        # A hook that a killed agent was just starting holds the lock until its program runs.
        end = time.monotonic() + _LOCK_SECONDS
        while self._lock is None and time.monotonic() < end:
            self._lock = system.lock(self._path.with_name("lock"))
            if self._lock is None:
                time.sleep(_LOCK_RETRY_SECONDS)
        if self._lock is None:
            raise self._already_runs()

    def _keep_lock(self) -> None:
        """Lock the file again if it was deleted, before another agent creates and locks it."""
        path = self._path.with_name("lock")
        assert self._lock is not None
        try:
            if path.exists() and os.path.samestat(os.fstat(self._lock), path.stat()):
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = system.lock(path)
        except OSError:
            return  # a full disk, or no permission: another agent has the same problem
        if lock is None:
            raise self._already_runs()
        log.warning("%s was deleted; the agent has locked it again", path)
        os.close(self._lock)
        self._lock = lock

    def _already_runs(self) -> Unavailable:
        text = f"another agent uses the journal in {self._path.parent}; stop it first"
        return Unavailable("AlreadyRuns", text)

    def _read(self) -> list[AgentJournalEntry]:
        entries, damaged = [], 0
        try:
            with self._path.open("rb") as file:
                for number, line in enumerate(_complete_lines(file), 1):
                    try:
                        entries += [_entry(json.loads(line))] if line.strip() else []
                    except _DAMAGES as error:
                        damaged += 1
                        if damaged <= _REPORTED_LINES:
                            reason = f"{type(error).__name__}: {str(error)[:80]}"
                            text = "line %d of %s is damaged and skipped: %s"
                            log.warning(text, number, self._path, reason)
        except FileNotFoundError:
            return []
        if damaged > _REPORTED_LINES:
            log.warning("%d lines of %s are damaged and were skipped", damaged, self._path)
        return entries

    # --- Writing ---

    def write(self, entry: AgentJournalEntry) -> None:
        """Append an entry durably; on failure keep it in memory until there is space."""
        self._entries.append(entry)
        self._missing.append(entry)
        self.flush()
        if len(self._entries) > self._compact_at:
            self._compact()

    def _compact(self) -> None:
        """Keep only what the next agent needs, in memory and, if there is space, in the file."""
        self._entries = _current(self._entries)
        self._compact_at = max(_COMPACT_LINES, 2 * len(self._entries))
        if self.failing:
            self._missing, self._is_outdated = [], True
            return
        try:
            self._rewrite()
        except OSError as error:
            log.warning("cannot compact the journal in %s: %s", self._path.parent, error)

    def flush(self) -> None:
        """Write the entries that are missing in the file; called about every two seconds."""
        if self._lock is not None:
            self._keep_lock()
        if not self._missing and not self.failing:
            if self._lock is not None:
                self._reserve.renew()
            return
        try:
            self._use_reserve(self._write_missing)
        except OSError as error:
            self._report_failure(error)
            return
        if self.failing:
            text = "the journal in %s can be written again, and is complete"
            log.warning(text, self._path.parent)
        self.failing = False

    def _use_reserve(self, work: Callable[[], None]) -> None:
        """Do file work; if the disk is full, free the reserved space and try again."""
        try:
            work()
        except OSError as error:
            if not is_disk_full(error) or not self._reserve.give_up():
                raise
            text = "the disk of %s is full (%s); the journal uses its reserve: free some space"
            log.warning(text, self._path.parent, error)
            work()

    def _write_missing(self) -> None:
        if self._missing and not self._is_outdated and self._is_in_place():
            if self.failing:
                self._append(1)  # shows whether there is space, without the cost of all lines
            self._append(len(self._missing))
        else:  # it could not be compacted, or its folder was deleted
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._rewrite()

    def _append(self, count: int) -> None:
        _write(self._file, b"".join(map(_line, self._missing[:count])))
        self._missing = self._missing[count:]

    def _is_in_place(self) -> bool:
        """Open the file if it is closed; return whether it still has its path."""
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_APPEND | os.O_RDWR)
            return os.path.samestat(os.fstat(self._file), self._path.stat())
        except FileNotFoundError:
            return False

    def _rewrite(self) -> None:
        """Replace the file atomically with one that has only the current entries."""
        try:
            system.write_file(self._new, b"".join(map(_line, self._entries)), sync=True)
            self._close_file()  # Windows cannot replace an open file
            self._new.replace(self._path)
        except OSError:
            self._new.unlink(missing_ok=True)  # it takes space
            raise
        self._missing, self._is_outdated = [], False
        system.sync_folder(self._path.parent)

    def close(self) -> None:
        """Close the files and release the lock."""
        self._close_file()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # --- Reports ---

    def _report_failure(self, error: OSError) -> None:
        if not self.failing:
            text = (
                "cannot write the journal in %s: %s. The agent continues, but if it ends now, the"
                " next one may run hooks again: free some space, or check the disk"
            )
            log.error(text, self._path.parent, error)
        self.failing = True


def _report_interrupted(entries: list[AgentJournalEntry]) -> None:
    begun = {(entry.event, entry.phase, entry.hook): entry for entry in entries if entry.hook}
    for (event, phase, hook), last in begun.items():
        if last.step == "begun":
            text = "hook %s (event %s, %s) was interrupted; it runs again unless it is too late"
            log.warning(text, hook, event, phase)


# --- Lines ----------------------------------------------------------------------------------------


def _write(file: int, content: bytes) -> None:
    """Write all of it durably; on failure, such as a full disk, truncate to the old size."""
    old_size = os.fstat(file).st_size
    if old_size:
        os.lseek(file, -1, os.SEEK_END)
        if os.read(file, 1) != b"\n":  # the rest of a line that could not be removed
            content = b"\n" + content
    try:
        while content:
            content = content[os.write(file, content) :]
        os.fsync(file)
    except OSError:
        os.ftruncate(file, old_size)
        raise


def _complete_lines(file: BinaryIO) -> Iterator[bytes]:
    """Return the lines that end with a newline; of a line that is too long only the beginning."""
    while line := file.readline(_LINE_BYTES):
        end = line
        while end and not end.endswith(b"\n"):
            end = file.readline(_LINE_BYTES)
        if end:
            yield line


def _current(entries: list[AgentJournalEntry]) -> list[AgentJournalEntry]:
    """Drop entries up to the last `forgotten` of their event, which may be seen again later.

    Of entries that repeat a step, such as each new NotBefore, only the last one counts.
    """
    last = {entry.event: n for n, entry in enumerate(entries) if entry.step == "forgotten"}
    current: dict[tuple[str, ...], AgentJournalEntry] = {}
    for entry in (entry for n, entry in enumerate(entries) if n > last.get(entry.event, -1)):
        key = (entry.event, entry.step, entry.phase, entry.hook)
        if entry.seen is None:
            current.pop(key, None)  # while an event comes before all of its other entries
        current[key] = entry
    return list(current.values())


def _line(entry: AgentJournalEntry) -> bytes:
    raw: dict[str, Any] = {"step": entry.step, "event": entry.event}
    for name in ("phase", "hook", "failed"):
        if value := getattr(entry, name):
            raw[name] = str(value)
    if entry.cancelled:
        raw["cancelled"] = True
    if entry.seen is not None:
        raw["seen"] = to_json(entry.seen)
    if entry.kinds:
        raw["kinds"] = sorted(entry.kinds)
    return json.dumps(raw, separators=(",", ":")).encode() + b"\n"


_DAMAGES = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What a damaged line raises, whatever the disk did to it."""


def _entry(raw: object) -> AgentJournalEntry:
    """Parse a line; refuse whatever the agent does not write, since `plan` relies on it."""
    if not isinstance(raw, dict):
        raise TypeError("not an object")
    texts = {name: raw.get(name, "") for name in ("step", "event", "phase", "hook", "failed")}
    if not all(isinstance(value, str) for value in texts.values()):
        raise TypeError("not a string")
    seen = from_json(raw["seen"]) if raw.get("seen") else None
    kinds = frozenset((str(kind), str(source)) for kind, source in raw.get("kinds", ()))
    cancelled = raw.get("cancelled", False) is True
    entry = AgentJournalEntry(**texts, cancelled=cancelled, seen=seen, kinds=kinds)
    if not entry.step or not entry.event or entry.event != entry.event.upper():
        raise ValueError("no step or no event")
    if seen is not None and seen.id.upper() != entry.event:
        raise ValueError("two different events")
    if (entry.phase or entry.step in {"begun", "done"}) and entry.phase not in PHASES:
        raise ValueError("no such phase")
    return entry
