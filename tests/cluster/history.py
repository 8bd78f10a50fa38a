"""The requests of clients and their answers, with process and time."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairwarning.core.commands import Command
from tests.cluster.cluster import NoAnswer, WorkerProcess


@dataclass(slots=True)
class SubmittedCommand:
    """A command. Its actor is unique, so that the journal shows which lines it caused."""

    command: Command
    process: str
    sent: float
    answered: float = 0.0
    outcome: str = ""  # done, lost (unknown), or the code of a refusal
    status: int = 0  # of a refusal


@dataclass(slots=True)
class Read:
    """A document that was read; `version` is None if there was no such scope."""

    scope: str
    process: str
    sent: float
    answered: float
    version: int | None
    body: str


@dataclass(slots=True)
class History:
    """All requests, in order of sending."""

    commands: list[SubmittedCommand] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    unavailable: int = 0  # reads that were refused

    async def submit(self, process: WorkerProcess, command: Command) -> SubmittedCommand:
        """Submit a command and record the outcome."""
        entry = SubmittedCommand(command, process.name, time.time())
        self.commands.append(entry)
        try:
            answer = await process.submit(command)
        except NoAnswer:
            entry.outcome = "lost"
            return entry
        entry.answered = time.time()
        entry.outcome = answer.get("refused", "done")
        if entry.outcome == "StoreUnclear":
            entry.outcome = "lost"
        entry.status = answer.get("status", 0)
        return entry

    async def poll(self, process: WorkerProcess, scope: str) -> Read | None:
        """Read a document; None if there was no answer or a refusal."""
        sent = time.time()
        try:
            answer: Mapping[str, Any] = await process.request(poll=scope)
        except NoAnswer:
            return None
        if "refused" in answer:
            self.unavailable += 1
            return None
        read = Read(
            scope, process.name, sent, time.time(), answer["version"], answer.get("body", "")
        )
        self.reads.append(read)
        return read
