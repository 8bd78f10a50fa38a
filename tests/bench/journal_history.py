"""A history for the journal: events as the core decides them, written in large batches."""

import time
from dataclasses import dataclass, field

from fairwarning.core import cascade
from fairwarning.core.commands import (
    Approve,
    Command,
    CreateScope,
    Degrade,
    Poll,
    RecordDelivery,
    ReportImpact,
    Restart,
)
from fairwarning.core.model import Entity, Operation, Ref, Scope, ScopeKind
from fairwarning.service.writer.batch import CommandBatch, size_of
from fairwarning.store.sqlite import SQLiteStore
from tests.bench import fleets

SCOPE_LINES = 100  # lines per scope
HOT = "hot"  # the scope with half of all lines
HOT_MACHINES = 100

_MACHINES = 2  # of any other scope
_LIVE = 50  # one scope in this many has an open event
_SPAN_SECONDS = 20 * 3600  # of the history: less than a day, so that no scope is disabled
_WEEK_SECONDS = 7 * 24 * 3600
_BATCH = 20_000  # lines per transaction


@dataclass(slots=True)
class EndedEvents:
    """Ended events and their operations, oldest first."""

    events: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Written:
    """The contents of a journal."""

    scopes: list[str]
    few: EndedEvents = field(default_factory=EndedEvents)  # in scopes with few lines
    hot: EndedEvents = field(default_factory=EndedEvents)
    live: list[str] = field(default_factory=list)  # open events
    first: str = ""  # the open event that was announced first, in the hot scope


class HistoryWriter:
    """Lets the core decide each command, and commits many decisions at once."""

    def __init__(self, store: SQLiteStore, lines: int) -> None:
        self._store = store
        self._lines = lines
        self._written = 0
        self._entities: dict[Ref, Entity | None] = {}
        self._work = CommandBatch()

    async def write(self) -> Written:
        """Write a journal of at least this many lines."""
        written = Written(fleets.scope_names(self._lines // SCOPE_LINES))
        for name in written.scopes:
            self._create(name, _MACHINES)
        self._create(HOT, HOT_MACHINES)
        written.first = self._degrade(HOT)
        written.live = [self._degrade(name) for name in written.scopes[::_LIVE]]
        hot, turn, rest = 0, 0, self._written
        while self._written < self._lines:
            before = self._written
            if hot <= (before - rest) // 2:
                machine = 1 + len(written.hot.events) % (HOT_MACHINES - 1)
                self._write_event(written.hot, HOT, machine, HOT_MACHINES)
                hot += self._written - before
            else:
                self._write_event(
                    written.few, written.scopes[turn % len(written.scopes)], 1, _MACHINES
                )
                turn += 1
            if len(self._work.lines) > _BATCH:
                await self._commit()
        await self._commit()
        return written

    def _create(self, scope: str, machines: int) -> None:
        members = tuple(fleets.machine(scope, number) for number in range(machines))
        self._do(CreateScope(scope=scope, kind=ScopeKind.AVAILABILITY_SET, machines=members))
        self._do(Poll(scope=scope, actor="machine"))

    def _degrade(self, scope: str) -> str:
        """Announce a failure of the first machine in a week; return the event."""
        name, operation = fleets.machine_name(scope, 0), f"degrade-{scope}"
        week = int(self._now()) + _WEEK_SECONDS
        self._do(Degrade(scope=scope, operation=operation, machines=(name,), not_before=week))
        event = self._newest_event(scope)
        self._do(RecordDelivery(scope=scope, event=event, machines=(name,), actor="machine"))
        return event

    def _write_event(self, ended: EndedEvents, scope: str, machine: int, machines: int) -> None:
        """Write an event from the restart to its end, with a delivery to every machine."""
        name, operation = fleets.machine_name(scope, machine), f"restart-{self._written}"
        self._do(Restart(scope=scope, operation=operation, machines=(name,)))
        event = self._newest_event(scope)
        for reader in (fleets.machine_name(scope, number) for number in range(machines)):
            self._do(RecordDelivery(scope=scope, event=event, machines=(reader,), actor="machine"))
        (impact,) = self._do(Approve(scope=scope, events=(event,), actor=name)).impacts
        self._do(ReportImpact(scope=scope, machine=name, impact=impact.id))
        del self._entities[Operation, operation]
        ended.events.append(event)
        ended.operations.append(operation)

    def _newest_event(self, name: str) -> str:
        scope = self._entities[Scope, name]
        assert isinstance(scope, Scope)
        return list(scope.events)[-1]

    def _now(self) -> float:
        """The time of the next command, evenly spread and never in the future."""
        return time.time() - max(1 - self._written / self._lines, 0.0) * _SPAN_SECONDS

    def _do(self, command: Command) -> cascade.Outcome:
        outcome = cascade.run(command, self._now(), self._entities.get)
        self._entities.update({ref: after for ref, (_, after) in outcome.changes.items()})
        self._work.add(outcome, size_of(outcome))
        self._written += len(outcome.lines)
        return outcome

    async def _commit(self) -> None:
        await self._store.commit(self._work.batch(self._now(), {}))
        self._work = CommandBatch()
