"""The agent's journal: a line for each step, on the disk before the step is taken (G6)."""

import json
import os
from pathlib import Path
from typing import Any

from fairwarning.core.errors import Unavailable
from fairwarning.guest.agent import system
from fairwarning.guest.agent.plan import AgentJournalEntry
from fairwarning.guest.events import from_json, to_json
from fairwarning.guest.watch import Phase

_FILE = "journal"
_NEW = "journal.new"
_COMPACT_LINES = 1000  # so many lines of what is forgotten are borne


class AgentJournal:
    """An append-only file of lines. Whatever is cut off at its end was not yet written."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._new = folder / _NEW
        self._file = -1
        self._lines = 0
        self._lock: int | None = None

    def open(self) -> list[AgentJournalEntry]:
        """What it holds of events that are not forgotten."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._take()
            entries = _living(self._read())
            self._rewrite(entries)
        except OSError as error:
            text = f"the agent cannot keep its journal in {self._path.parent}: {error}"
            raise Unavailable("NoJournal", text) from error
        return entries

    def _take(self) -> None:
        if self._lock is None:
            self._lock = system.lock(self._path.with_name("lock"))
        if self._lock is None:
            text = f"another agent keeps its journal in {self._path.parent}; stop it first"
            raise Unavailable("AlreadyRuns", text)

    def _read(self) -> list[AgentJournalEntry]:
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        found = []
        for line in lines[:-1]:  # what follows the last newline was cut off
            try:
                found.append(_entry(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue  # a line that a broken disk spoilt
        return found

    def _rewrite(self, entries: list[AgentJournalEntry]) -> None:
        """A new file with these alone, in the place of the old one at once."""
        new = os.open(self._new, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)
        try:
            _write(new, b"".join(map(_line, entries)))
        finally:
            os.close(new)
        self._close_file()  # Windows replaces no file that is open
        self._new.replace(self._path)
        system.sync_folder(self._path.parent)
        self._file = os.open(self._path, os.O_APPEND | os.O_RDWR)
        self._lines = len(entries)

    def write(self, entry: AgentJournalEntry) -> None:
        """Durable when this returns; if it cannot be, nothing of it is left behind."""
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_APPEND | os.O_RDWR)
            _write(self._file, _line(entry))
            self._lines += 1
            if self._lines > _COMPACT_LINES and entry.step == "forgotten":
                self._rewrite(_living(self._read()))
        except OSError as error:
            text = f"the agent cannot write its journal in {self._path.parent}: {error}"
            raise Unavailable("NoJournal", text) from error

    def close(self) -> None:
        """Let go of the files."""
        self._close_file()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _write(file: int, content: bytes) -> None:
    """All of it, durably or, on a full disk, nothing."""
    began = os.fstat(file).st_size
    try:
        while content:
            content = content[os.write(file, content) :]
        os.fsync(file)
    except OSError:
        os.ftruncate(file, began)
        raise


def _living(entries: list[AgentJournalEntry]) -> list[AgentJournalEntry]:
    """Without what was forgotten; an event may be seen anew after that."""
    last = {entry.event: n for n, entry in enumerate(entries) if entry.step == "forgotten"}
    return [entry for n, entry in enumerate(entries) if n > last.get(entry.event, -1)]


def _line(entry: AgentJournalEntry) -> bytes:
    told: dict[str, Any] = {"step": entry.step, "event": entry.event}
    for name in ("phase", "hook", "failed"):
        if value := getattr(entry, name):
            told[name] = str(value)
    if entry.cancelled:
        told["cancelled"] = True
    if entry.seen is not None:
        told["seen"] = to_json(entry.seen)
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def _entry(told: dict[str, Any]) -> AgentJournalEntry:
    seen, phase = told.get("seen"), str(told.get("phase", ""))
    if phase:
        Phase(phase)
    return AgentJournalEntry(
        step=str(told["step"]),
        event=str(told["event"]),
        phase=phase,
        hook=str(told.get("hook", "")),
        failed=str(told.get("failed", "")),
        cancelled=bool(told.get("cancelled", False)),
        seen=from_json(seen) if seen else None,
    )
