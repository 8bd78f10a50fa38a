"""What clients did and were told, through which process and when."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairwarning.core.commands import Command
from tests.cluster.cluster import Life, Lost


@dataclass(slots=True)
class Asked:
    """A command. `actor` is of this very request, so that the journal tells whose line it is."""

    command: Command
    life: str
    sent: float
    answered: float = 0.0
    outcome: str = ""  # done, lost (nobody knows), or the code of a refusal
    status: int = 0  # of a refusal


@dataclass(slots=True)
class Read:
    """A document that was read; `version` is None when there was no such scope."""

    scope: str
    life: str
    sent: float
    answered: float
    version: int | None
    body: str


@dataclass(slots=True)
class History:
    """All of it, in order of sending."""

    asked: list[Asked] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    unavailable: int = 0  # reads that were refused

    async def submit(self, life: Life, command: Command) -> Asked:
        """Have a command carried out, and note what came of it."""
        entry = Asked(command, life.name, time.time())
        self.asked.append(entry)
        try:
            answer = await life.submit(command)
        except Lost:
            entry.outcome = "lost"
            return entry
        entry.answered = time.time()
        entry.outcome = answer.get("refused", "done")
        entry.status = answer.get("status", 0)
        return entry

    async def poll(self, life: Life, scope: str) -> Read | None:
        """Read a document; None where no answer came, or none that tells."""
        sent = time.time()
        try:
            answer: Mapping[str, Any] = await life.ask(poll=scope)
        except Lost:
            return None
        if "refused" in answer:
            self.unavailable += 1
            return None
        read = Read(scope, life.name, sent, time.time(), answer["version"], answer.get("body", ""))
        self.reads.append(read)
        return read
