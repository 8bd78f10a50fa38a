"""Pending commands, and the combined outcome of a batch of them."""

import asyncio

from fairwarning.core.cascade import JournalLine, Outcome
from fairwarning.core.commands import Command
from fairwarning.core.errors import Bug, FairwarningError
from fairwarning.core.model import Entity, Impact, Operation, Ref, Resource, Scope
from fairwarning.store.store import Batch

_ROW_BYTES = 1024


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
        "bugs", "changes", "committed", "impacts", "left", "lines", "loaded", "moments", "next_due",
        "settled", "size",
    )  # fmt: skip

    def __init__(self, left: int = 0) -> None:
        self.committed = False
        self.bugs: list[Bug] = []  # with their causes
        self.left = left  # commands at the end that are left for the next transaction
        self.size = 0  # see `size_of`
        self.next_due: float | None = None  # of all entities, after the commit
        self.moments = 0  # times at which entities were loaded or a document was visible
        self.loaded: dict[Ref, Entity | None] = {}
        self.changes: dict[Ref, tuple[Entity | None, Entity | None]] = {}
        self.lines: list[JournalLine] = []
        self.impacts: list[Impact] = []
        self.settled: list[str] = []

    def add(self, outcome: Outcome, size: int) -> None:
        """Merge the outcome of the next command; see `size_of`."""
        for ref, (before, after) in outcome.changes.items():
            earlier = self.changes.get(ref)
            self.changes[ref] = (earlier[0] if earlier else before, after)
        self.lines += outcome.lines
        self.size += size
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


def size_of(outcome: Outcome) -> int:
    """About how many rows an outcome writes; a long text counts as several."""
    return len(outcome.lines) + sum(_rows(*change) for change in outcome.changes.values())


def _rows(before: Entity | None, after: Entity | None) -> int:
    """About how many rows a change writes: the entity, and machines that come or go."""
    if isinstance(after, Resource):
        return 1 + len(after.body) // _ROW_BYTES
    machines_before = len(before.machines) if isinstance(before, Scope) else 0
    machines_after = len(after.machines) if isinstance(after, Scope) else 0
    return 1 + abs(machines_after - machines_before)
