"""Pending commands, and the combined outcome of a batch of them."""

import asyncio

from fairwarning.core.cascade import JournalLine, Outcome
from fairwarning.core.commands import Command
from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import Entity, Impact, Operation, Ref, Scope
from fairwarning.store.store import Batch


class PendingCommand:
    """A queued command and the future that receives its result."""

    __slots__ = ("command", "error", "future", "operation")

    def __init__(self, command: Command, future: "asyncio.Future[Operation | None] | None") -> None:
        self.command = command
        self.future = future
        self.operation: Operation | None = None
        self.error: FairwarningError | None = None

    def answer(self) -> None:
        """Resolve the future with the operation or the error."""
        if self.future is None or self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.operation)


class CommandBatch:
    """The merged outcomes of one batch of commands; none of them is visible yet."""

    __slots__ = (
        "changes", "committed", "impacts", "lines", "loaded", "moments", "next_due", "settled",
    )  # fmt: skip

    def __init__(self) -> None:
        self.committed = False
        self.next_due: float | None = None  # of all entities, after the commit
        self.moments = 0  # times at which entities were loaded or a document was visible
        self.loaded: dict[Ref, Entity | None] = {}
        self.changes: dict[Ref, tuple[Entity | None, Entity | None]] = {}
        self.lines: list[JournalLine] = []
        self.impacts: list[Impact] = []
        self.settled: list[str] = []

    def add(self, outcome: Outcome) -> None:
        """Merge the outcome of the next command."""
        for ref, (before, after) in outcome.changes.items():
            earlier = self.changes.get(ref)
            self.changes[ref] = (earlier[0] if earlier else before, after)
        self.lines += outcome.lines
        self.impacts += outcome.impacts
        self.settled += outcome.settled
        if outcome.settled:  # what began and ended in one batch is not handed over
            self.impacts = [i for i in self.impacts if i.id not in outcome.settled]

    def scopes(self) -> list[tuple[str, Scope | None]]:
        """The changed scopes in their new state."""
        return [
            (ref[1], after)
            for ref, (_, after) in self.changes.items()
            if ref[0] is Scope and (after is None or isinstance(after, Scope))
        ]

    def batch(self, at: float, notes: dict[str, str]) -> Batch:
        """Return the batch for the store to commit."""
        read = {ref: entity for ref, entity in self.loaded.items() if ref not in self.changes}
        return Batch(at, self.changes, self.lines, self.impacts, self.settled, notes, read)
