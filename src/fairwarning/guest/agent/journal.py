"""The agent's journal: one line per step, durable before the step is taken (G6)."""

import json
import os
import time
from pathlib import Path
from typing import Any

from fairwarning.core.errors import Unavailable
from fairwarning.guest.agent import system
from fairwarning.guest.agent.plan import AgentJournalEntry
from fairwarning.guest.events import from_json, to_json
from fairwarning.guest.watch import Phase

_FILE = "journal"
_NEW = "journal.new"
_LOCK_SECONDS = 2.0
_LOCK_RETRY_SECONDS = 0.05
_COMPACT_LINES = 1000  # compact a longer journal when an event is forgotten


class AgentJournal:
    """An append-only file of lines. An incomplete last line counts as not written."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._new = folder / _NEW
        self._file = -1
        self._lines = 0
        self._lock: int | None = None

    def open(self) -> list[AgentJournalEntry]:
        """Lock and compact the journal; return its entries for events not yet forgotten."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._acquire_lock()
            entries = _current(self._read())
            self._rewrite(entries)
        except OSError as error:
            text = f"the agent cannot open its journal in {self._path.parent}: {error}"
            raise Unavailable("NoJournal", text) from error
        return entries

    def _acquire_lock(self) -> None:
        # A hook that a killed agent was just starting holds the lock until its program runs.
        end = time.monotonic() + _LOCK_SECONDS
        while self._lock is None and time.monotonic() < end:
            self._lock = system.lock(self._path.with_name("lock"))
            if self._lock is None:
                time.sleep(_LOCK_RETRY_SECONDS)
        if self._lock is None:
            text = f"another agent uses the journal in {self._path.parent}; stop it first"
            raise Unavailable("AlreadyRuns", text)

    def _read(self) -> list[AgentJournalEntry]:
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        entries = []
        for line in lines[:-1]:  # text after the last newline is an incomplete line
            try:
                entries.append(_entry(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue  # a corrupt line
        return entries

    def _rewrite(self, entries: list[AgentJournalEntry]) -> None:
        """Replace the file atomically with one that has only these entries."""
        new = os.open(self._new, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)
        try:
            _write(new, b"".join(map(_line, entries)))
        finally:
            os.close(new)
        self._close_file()  # Windows cannot replace an open file
        self._new.replace(self._path)
        system.sync_folder(self._path.parent)
        self._file = os.open(self._path, os.O_APPEND | os.O_RDWR)
        self._lines = len(entries)

    def write(self, entry: AgentJournalEntry) -> None:
        """Append an entry durably; on failure, leave no part of it behind."""
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_APPEND | os.O_RDWR)
            _write(self._file, _line(entry))
            self._lines += 1
            if self._lines > _COMPACT_LINES and entry.step == "forgotten":
                self._rewrite(_current(self._read()))
        except OSError as error:
            text = f"the agent cannot write its journal in {self._path.parent}: {error}"
            raise Unavailable("NoJournal", text) from error

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


def _write(file: int, content: bytes) -> None:
    """Write all of it durably; on failure, such as a full disk, truncate to the old size."""
    old_size = os.fstat(file).st_size
    try:
        while content:
            content = content[os.write(file, content) :]
        os.fsync(file)
    except OSError:
        os.ftruncate(file, old_size)
        raise


def _current(entries: list[AgentJournalEntry]) -> list[AgentJournalEntry]:
    """Drop entries up to the last `forgotten` of their event, which may be seen again later."""
    last = {entry.event: n for n, entry in enumerate(entries) if entry.step == "forgotten"}
    return [entry for n, entry in enumerate(entries) if n > last.get(entry.event, -1)]


def _line(entry: AgentJournalEntry) -> bytes:
    raw: dict[str, Any] = {"step": entry.step, "event": entry.event}
    for name in ("phase", "hook", "failed"):
        if value := getattr(entry, name):
            raw[name] = str(value)
    if entry.cancelled:
        raw["cancelled"] = True
    if entry.seen is not None:
        raw["seen"] = to_json(entry.seen)
    return json.dumps(raw, separators=(",", ":")).encode() + b"\n"


def _entry(raw: dict[str, Any]) -> AgentJournalEntry:
    seen, phase = raw.get("seen"), str(raw.get("phase", ""))
    if phase:
        Phase(phase)
    return AgentJournalEntry(
        step=str(raw["step"]),
        event=str(raw["event"]),
        phase=phase,
        hook=str(raw.get("hook", "")),
        failed=str(raw.get("failed", "")),
        cancelled=bool(raw.get("cancelled", False)),
        seen=from_json(seen) if seen else None,
    )
