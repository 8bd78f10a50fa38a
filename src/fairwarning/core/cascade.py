"""One command and everything that follows from it: all of it in one transaction, or none of it.

What follows may touch many scopes, sets and rollouts; they send each other messages.

Pure: `get` raises `EntityNotLoaded` for an entity that is not in memory; the caller loads it and
runs the command again from the start.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fairwarning.core import engine, lifecycle, operation, resources, rollout, scale_set
from fairwarning.core.commands import (
    Command,
    LaneCommand,
    OperateInstances,
    Remove,
    ResourceCommand,
    RolloutCommand,
    ScopeCommand,
    SetCommand,
    operation_of,
)
from fairwarning.core.decision import Decision, EntityDecision, Fact, FactType, OperationProgress
from fairwarning.core.errors import InvariantViolated
from fairwarning.core.messages import (
    AddInstances,
    LinkMachine,
    LinkSet,
    MaintainForRollout,
    RemoveEmptyScope,
)
from fairwarning.core.model import (
    Entity,
    Impact,
    Lane,
    Operation,
    Ref,
    Resource,
    Rollout,
    ScaleSet,
    Scope,
)
from fairwarning.core.record import short_record

_MESSAGES_AT_MOST = 100_000  # a cascade that does not end is a bug, not a wait


# Messages that create their target, or fail without it.
_CREATES_OR_FAILS = (AddInstances, LinkMachine, LinkSet)


class EntityNotLoaded(Exception):
    """The caller must load this entity (or learn that there is none) and run again."""

    def __init__(self, ref: Ref) -> None:
        super().__init__(ref)
        self.ref = ref


@short_record
class JournalLine:
    """A line of the journal (IC7)."""

    at: float
    actor: str
    entity: Ref
    fact: Fact


@dataclass(slots=True)
class Outcome:
    """What a command comes to: to be committed whole, then published, then carried out."""

    changes: dict[Ref, tuple[Entity | None, Entity | None]] = field(default_factory=dict)
    lines: list[JournalLine] = field(default_factory=list)
    impacts: list[Impact] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    operation: Operation | None = None


def run(command: Command, now: float, get: Callable[[Ref], Entity | None]) -> Outcome:
    """Decide a valid `command` to its end.

    Raises `Refused` (nothing changes) or `EntityNotLoaded` (load that first).
    """
    desk = _UnitOfWork(command, now, get)
    name = operation_of(command)
    if name:
        known = desk.get(Operation, name)
        if known is not None:  # IC2: a repeat has the effect of one
            return Outcome(operation=known)
        desk.count(OperationProgress(name))
    desk.work_off()
    if name:
        desk.outcome.operation = desk.get(Operation, name)
    return desk.outcome


def due(entity: Entity) -> float | None:
    """When the entity changes by the passing of time alone."""
    if isinstance(entity, Scope):
        return lifecycle.due(entity)
    if isinstance(entity, Lane):
        return entity.retry_at
    return None


E = TypeVar("E", Scope, ScaleSet, Operation, Rollout, Lane, Resource)


class _UnitOfWork:
    """Where one command is worked off: an overlay over what is stored.

    A ref holds its entity's kind, which the type checker cannot follow through a dictionary: hence
    the few `type: ignore`s below.
    """

    __slots__ = ("before", "command", "now", "outcome", "present", "stored", "tallies", "waiting")

    def __init__(
        self, command: Command, now: float, stored: Callable[[Ref], Entity | None]
    ) -> None:
        self.command = command
        self.now = now
        self.stored = stored
        self.outcome = Outcome()
        self.present: dict[Ref, Entity | None] = {}  # as this command has left it so far
        self.before: dict[Ref, Entity | None] = {}  # of those that changed
        self.waiting: deque[Command] = deque((command,))
        self.tallies: dict[str, OperationProgress] = {}  # of operations, not entered yet

    def get(self, kind: type[E], name: str) -> E | None:
        """The entity as this command has left it so far."""
        ref = (kind, name)
        if ref not in self.present:
            self.present[ref] = self.stored(ref)
        return self.present[ref]  # type: ignore[return-value]

    def read(self, scope: str) -> Scope | None:
        """A scope, for those that plan over several."""
        return self.get(Scope, scope)

    def scale_set(self, name: str) -> ScaleSet | None:
        """A scale set."""
        return self.get(ScaleSet, name)

    def resource(self, name: str) -> Resource | None:
        """What somebody wrote about a thing."""
        return self.get(Resource, name)

    def put(self, kind: type[E], name: str, entity: E | None) -> None:
        """Record a change; `before` stays what is stored, so that versions can be compared."""
        ref = (kind, name)
        if ref not in self.before:
            self.before[ref] = self.get(kind, name)
        self.present[ref] = entity

    def note(self, kind: type[Entity], name: str, facts: tuple[Fact, ...]) -> None:
        """Journal lines, under the name of whoever caused all this."""
        now, actor, ref = self.now, self.command.actor, (kind, name)
        self.outcome.lines += [JournalLine(now, actor, ref, fact) for fact in facts]

    def work_off(self) -> None:
        """The command, then whatever it sends, then the operations that ended by it."""
        for _ in range(_MESSAGES_AT_MOST):
            if self.waiting:
                self._apply(self.waiting.popleft())
            elif self.tallies:
                self._settle(next(iter(self.tallies)))
            else:
                self._collect()
                return
        raise InvariantViolated("Endless", f"{type(self.command).__name__} does not come to an end")

    def _collect(self) -> None:
        for ref, before in self.before.items():
            after = self.present[ref]
            if after is not None:
                # Nobody else holds `after` yet, so it may be finished in place.
                object.__setattr__(after, "version", before.version + 1 if before else 1)
            self.outcome.changes[ref] = (before, after)

    def _apply(self, command: Command) -> None:
        kind, name = command.on, getattr(command, command.target)
        standing = self.get(kind, name)  # type: ignore[type-var]
        if standing is None and command.internal and not isinstance(command, _CREATES_OR_FAILS):
            return  # its target is gone, and no caller waits for an answer
        if isinstance(command, RemoveEmptyScope):
            self.put(Scope, name, None)
            self.note(Scope, name, (Fact(FactType.SCOPE_REMOVED),))
        elif isinstance(command, ScopeCommand):
            self._decide(standing, command)  # type: ignore[arg-type]
        else:
            self._turn(kind, name, self._coordinate(command, standing))

    def _decide(self, scope: Scope | None, command: ScopeCommand) -> None:
        decision: Decision = engine.decide(scope, command, self.now)
        self.note(Scope, command.scope, decision.facts)
        if decision.scope is scope:
            return
        self.put(Scope, command.scope, decision.scope)
        self.outcome.impacts.extend(decision.impacts)
        self.outcome.settled.extend(decision.settled)
        self.waiting.extend(decision.sends)
        lane = command.lane if isinstance(command, MaintainForRollout) else ""
        for progress in decision.progress:
            self.count(progress, lane)

    def _coordinate(self, command: Command, standing: Entity | None) -> EntityDecision:
        """Those that plan over several scopes: sets, rollouts and their lanes; and resources."""
        if isinstance(command, ResourceCommand):
            assert standing is None or isinstance(standing, Resource)
            return resources.decide(standing, command, self.now, self)
        if isinstance(command, SetCommand):
            assert standing is None or isinstance(standing, ScaleSet)
            return scale_set.decide(standing, command, self.read)
        if isinstance(command, RolloutCommand):
            assert standing is None or isinstance(standing, Rollout)
            return rollout.decide(standing, command, self.read, self.now)
        assert isinstance(command, LaneCommand)
        assert standing is None or isinstance(standing, Lane)
        owner = self.get(Rollout, standing.rollout) if standing else None
        return rollout.decide_lane(standing, owner, command, self.read, self.now)

    def _turn(self, kind: type[Entity], name: str, turn: EntityDecision) -> None:
        if turn.entity is None or turn.entity is not self.present[kind, name]:
            self.put(kind, name, turn.entity)  # type: ignore[type-var]
        for entity in turn.others:
            self.put(type(entity), entity.id, entity)  # type: ignore[type-var]
        self.note(kind, name, turn.facts)
        self.waiting.extend(turn.sends)
        for progress in turn.progress:
            self.count(progress)

    # --- Operations ---

    def count(self, progress: OperationProgress, lane: str = "") -> None:
        """Note progress of an operation; the first time, that accepts it (IC1)."""
        name = progress.operation
        tally = self.tallies.get(name)
        if tally is None and self.get(Operation, name) is None:
            kind = Rollout.__name__ if lane else _kind(self.command)
            command = self.command
            removes = (*command.others, command.resource) if isinstance(command, Remove) else ()
            accepted = Operation(
                id=name,
                kind=kind,
                actor=self._wanted_by(lane),
                accepted_at=self.now,
                lane=lane,
                removes=removes,
            )
            self.put(Operation, name, accepted)
            self.note(
                Operation, name, (Fact(FactType.OPERATION_ACCEPTED, operation=name, detail=kind),)
            )
        self.tallies[name] = tally.plus(progress) if tally else progress

    def _wanted_by(self, lane: str) -> str:
        """Who asked for it: a step of a rollout begins when the driver is done with another."""
        step = self.get(Lane, lane) if lane else None
        rollout = self.get(Rollout, step.rollout) if step else None
        return rollout.actor if rollout else self.command.actor

    def _settle(self, name: str) -> None:
        standing = self.get(Operation, name)
        assert standing is not None
        turn = operation.settle(standing, self.tallies.pop(name), self.now)
        self._turn(Operation, name, turn)


def _kind(command: Command) -> str:
    """What an operation is called: for instances of a set as for any machine."""
    kind = command.action if isinstance(command, OperateInstances) else type(command)
    return kind.__name__
