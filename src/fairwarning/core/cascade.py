"""Decides one command and the messages that follow from it, as one transaction.

Messages go between scopes, sets, rollouts, lanes and resources until none is left.

Pure: `get` raises `EntityNotLoaded` for an entity that is not in memory; the caller loads it and
runs the command again from the start.
"""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields
from hashlib import sha256
from operator import attrgetter
from typing import Any, TypeVar

from fairwarning.core import (
    engine,
    lanes,
    lifecycle,
    operation,
    resources,
    retention,
    rollout,
    scale_set,
    set_aside,
    subnets,
)
from fairwarning.core.commands import (
    AddMachines,
    Command,
    CreateScope,
    Drop,
    LaneCommand,
    OperateInstances,
    Release,
    Remove,
    ResourceCommand,
    RolloutCommand,
    ScopeCommand,
    SetCommand,
    operation_of,
    target_of,
)
from fairwarning.core.decision import Decision, EntityDecision, Fact, FactType, OperationProgress
from fairwarning.core.errors import Bug, key_reused
from fairwarning.core.messages import (
    AddInstances,
    ClaimAddress,
    LinkMachine,
    LinkSet,
    MaintainForRollout,
    ReleaseAddress,
    RemoveEmptyScope,
    ReportBug,
    UseResource,
)
from fairwarning.core.model import (
    Entity,
    Impact,
    Lane,
    Machine,
    Operation,
    Ref,
    Resource,
    Rollout,
    ScaleSet,
    Scope,
    SetAside,
    Subnet,
)
from fairwarning.core.record import changed, short_record

_DIGEST_CHARACTERS = 64
_DETAILS: dict[type[Command], Callable[[Command], object]] = {}
"""What a command says beside its kind and target, by its type."""
_MESSAGES_AT_MOST = 100_000  # more is an endless loop, and a bug


# Messages that create their target, or fail without it.
_CREATES_OR_FAILS = (AddInstances, ClaimAddress, LinkMachine, LinkSet, ReportBug, UseResource)
_ADDS_MACHINES = (CreateScope, AddInstances, AddMachines)


class EntityNotLoaded(Exception):
    """The caller must load this entity, or find that it does not exist, and run again.

    `next` are entities that waiting messages address: loading them together saves further runs.
    """

    def __init__(self, ref: Ref) -> None:
        super().__init__(ref)
        self.ref = ref
        self.next: tuple[Ref, ...] = ()


@short_record
class JournalLine:
    """A line of the journal (IC7)."""

    at: float
    actor: str
    entity: Ref
    fact: Fact


@dataclass
class Outcome:
    """The result of a command: to be committed, then published, then carried out."""

    changes: dict[Ref, tuple[Entity | None, Entity | None]] = field(default_factory=dict)
    lines: list[JournalLine] = field(default_factory=list)
    impacts: list[Impact] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    operation: Operation | None = None


def run(
    command: Command,
    now: float,
    get: Callable[[Ref], Entity | None],
    secret: str = "",
    taken: Collection[str] = (),
    *,
    clock_ahead: int = 0,
) -> Outcome:
    """Decide a valid `command` and everything that follows from it.

    `secret` goes into the ids of events, so that nobody can guess them (E2). No machine is given an
    address in `taken`. `now` is ahead of the time that machines are told, by `clock_ahead` seconds.
    Raises `Refused` (nothing changes) or `EntityNotLoaded` (load that first).
    """
    unit = _UnitOfWork(command, now, get, secret, taken, clock_ahead=clock_ahead)
    name = operation_of(command)
    if name:
        known = unit.get(Operation, name)
        if known is not None:  # IC2: a repeat has the effect of one
            _check_repeat(known, command)
            return Outcome(operation=known)
        unit.count(OperationProgress(name))
    unit.run()
    if name:
        unit.outcome.operation = unit.get(Operation, name)
    return unit.outcome


def _check_repeat(known: Operation, command: Command) -> None:
    """Raise `Conflict` if the operation was started by another request (E9)."""
    if known.request and command.request:
        same = known.request == command.request
    else:
        same = known.kind == _kind(command) and known.target in {"", target_of(command)}
        same = same and known.digest in {"", _digest(command)}
    if not same:
        first = known.request or f"{known.kind} of {known.target!r}"
        second = command.request or f"{_kind(command)} of {target_of(command)!r}"
        raise key_reused(known.id, first, second)


def due(entity: Entity) -> float | None:
    """When the entity is next due to change without a command."""
    if isinstance(entity, Scope):
        moment = lifecycle.due(entity)
        return max(moment, entity.retry_at) if moment is not None else None
    if isinstance(entity, Lane):
        return entity.retry_at
    return None


E = TypeVar("E", Scope, ScaleSet, Operation, Rollout, Lane, Resource, Subnet, SetAside)


class _UnitOfWork:
    """The changes of one command, as an overlay over the stored entities.

    A ref contains the kind of its entity. The type checker cannot follow that through a dictionary,
    hence the `type: ignore` comments.
    """

    __slots__ = (
        "before", "clock_ahead", "command", "now", "outcome", "present", "progress", "secret",
        "stored", "taken", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        command: Command,
        now: float,
        stored: Callable[[Ref], Entity | None],
        secret: str,
        taken: Collection[str],
        *,
        clock_ahead: int,
    ) -> None:
        self.command = command
        self.clock_ahead = clock_ahead
        self.now = now
        self.stored = stored
        self.secret = secret
        self.taken = taken
        self.outcome = Outcome()
        self.present: dict[Ref, Entity | None] = {}  # after the messages so far
        self.before: dict[Ref, Entity | None] = {}  # of changed entities
        self.waiting: deque[Command] = deque((command,))
        self.progress: dict[str, OperationProgress] = {}  # progress of operations, not applied yet

    def get(self, kind: type[E], name: str) -> E | None:
        """The entity after the messages so far."""
        ref = (kind, name)
        if ref not in self.present:
            self.present[ref] = self.stored(ref)
        return self.present[ref]  # type: ignore[return-value]

    def read(self, scope: str) -> Scope | None:
        """A scope."""
        return self.get(Scope, scope)

    def put(self, kind: type[E], name: str, entity: E | None) -> None:
        """Record a change. `before` keeps the stored value, for comparing versions."""
        ref = (kind, name)
        if ref not in self.before:
            self.before[ref] = self.get(kind, name)
        self.present[ref] = entity

    def note(self, kind: type[Entity], name: str, facts: tuple[Fact, ...]) -> None:
        """Add journal lines; their actor is that of the command."""
        ref = set_aside.entity_of(name) if kind is SetAside else (kind, name)
        now, actor = self.now, self.command.actor
        self.outcome.lines += [JournalLine(now, actor, ref, fact) for fact in facts]

    def run(self) -> None:
        """Apply the command, then the messages it causes, then the progress of operations."""
        for _ in range(_MESSAGES_AT_MOST):
            if self.waiting:
                self._apply_next()
            elif self.progress:
                self._settle(next(iter(self.progress)))
            else:
                self._collect()
                return
        raise Bug(f"{type(self.command).__name__} causes messages without end")

    def _apply_next(self) -> None:
        try:
            self._apply(self.waiting.popleft())
        except EntityNotLoaded as missing:
            missing.next = tuple((command.on, target_of(command)) for command in self.waiting)
            raise

    def _collect(self) -> None:
        for ref, before in self.before.items():
            after = self.present[ref]
            if after is not None:
                # Nothing else refers to `after` yet, so it may be changed in place.
                object.__setattr__(after, "version", before.version + 1 if before else 1)
            self.outcome.changes[ref] = (before, after)

    def _apply(self, command: Command) -> None:
        kind, name = command.on, target_of(command)
        current = self.get(kind, name)  # type: ignore[type-var]
        if current is None and command.internal and not isinstance(command, _CREATES_OR_FAILS):
            return  # the target was removed, and no caller waits for an answer
        if isinstance(command, RemoveEmptyScope):
            self.put(Scope, name, None)
            self.note(Scope, name, (Fact(FactType.SCOPE_REMOVED),))
        elif isinstance(command, ScopeCommand):
            self._decide(current, command)  # type: ignore[arg-type]
        else:
            self._apply_decision(kind, name, self._decide_other(command, current))

    def _decide(self, scope: Scope | None, command: ScopeCommand) -> None:
        if isinstance(command, _ADDS_MACHINES):
            command = changed(command, machines=self._with_addresses(command.machines))
        decision: Decision = engine.decide(scope, command, self.now, self.secret, self.clock_ahead)
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

    def _with_addresses(self, machines: tuple[Machine, ...]) -> tuple[Machine, ...]:
        """Give new machines addresses of their subnets."""
        for name in dict.fromkeys(machine.subnet for machine in machines if machine.subnet):
            subnet = self.get(Subnet, name) or Subnet(id=name)
            members = (machine for machine in machines if machine.subnet == name)
            subnet, with_addresses = subnets.assign(subnet, members, self.taken)
            self.put(Subnet, name, subnet)
            assigned = iter(with_addresses)
            machines = tuple(
                next(assigned) if machine.subnet == name else machine for machine in machines
            )
        return machines

    def _decide_other(self, command: Command, current: Any) -> EntityDecision:  # noqa: ANN401
        """Decide a command to an entity that is no scope, or None; it is of the command's kind."""
        if isinstance(command, Drop):
            return retention.drop(current, command, lambda name: self.get(Rollout, name))
        if isinstance(command, ClaimAddress | ReleaseAddress):
            return subnets.decide(current, command)
        if isinstance(command, ReportBug | Release):
            if current is None and isinstance(command, Release):
                raise set_aside.not_set_aside(command.entity)
            kind, name = set_aside.entity_of(command.entity)
            entity: Entity | None = self.get(kind, name)  # type: ignore[type-var]
            return set_aside.decide(current, command, entity, self.now)
        if isinstance(command, ResourceCommand):
            return resources.decide(current, command, self.now, self)
        if isinstance(command, SetCommand):
            return scale_set.decide(current, command, self.read)
        if isinstance(command, RolloutCommand):
            return rollout.decide(current, command, self.read, self.now)
        assert isinstance(command, LaneCommand)
        owner = self.get(Rollout, current.rollout) if current else None
        moment = lanes.Moment(self.now, self.clock_ahead)
        return lanes.decide(current, owner, command, self.read, moment)

    def _apply_decision(self, kind: type[Entity], name: str, decision: EntityDecision) -> None:
        if decision.entity is None or decision.entity is not self.present[kind, name]:
            self.put(kind, name, decision.entity)  # type: ignore[type-var]
        for entity in decision.others:
            self.put(type(entity), entity.id, entity)  # type: ignore[type-var]
        self.note(kind, name, decision.facts)
        self.waiting.extend(decision.sends)
        for progress in decision.progress:
            self.count(progress)

    # --- Operations ---

    def count(self, progress: OperationProgress, lane: str = "") -> None:
        """Add progress to an operation; the first time accepts the operation (IC1)."""
        name = progress.operation
        so_far = self.progress.get(name)
        if progress.corrects and not self._may_correct(progress):
            return
        if so_far is None and self.get(Operation, name) is None:
            kind = Rollout.__name__ if lane else _kind(self.command)
            command = self.command
            removes = (*command.others, command.resource) if isinstance(command, Remove) else ()
            accepted = Operation(
                id=name,
                kind=kind,
                target=target_of(command),
                group=self._group_of(command),
                request=command.request,
                digest="" if command.request else _digest(command),
                actor=self._requested_by(lane),
                accepted_at=self.now,
                lane=lane,
                removes=removes,
            )
            self.put(Operation, name, accepted)
            self.note(
                Operation, name, (Fact(FactType.OPERATION_ACCEPTED, operation=name, detail=kind),)
            )
        self.progress[name] = so_far.plus(progress) if so_far else progress

    def _group_of(self, command: Command) -> str:
        """The resource group of what a command addresses, or creates."""
        entity = self.get(command.on, target_of(command))  # type: ignore[type-var]
        if isinstance(entity, Resource) and not entity.group:
            return entity.name  # it is a group
        return str(getattr(entity or command, "group", ""))

    def _may_correct(self, progress: OperationProgress) -> bool:
        """False if retention has dropped the operation; its id may be used again."""
        known = self.get(Operation, progress.operation)
        return known is not None and known.accepted_at <= progress.begun_at

    def _requested_by(self, lane: str) -> str:
        """The actor of an operation; for a step of a rollout, the actor of the rollout."""
        step = self.get(Lane, lane) if lane else None
        rollout = self.get(Rollout, step.rollout) if step else None
        return rollout.actor if rollout else self.command.actor

    def _settle(self, name: str) -> None:
        current = self.get(Operation, name)
        assert current is not None
        decision = operation.settle(current, self.progress.pop(name), self.now)
        self._apply_decision(Operation, name, decision)


def _digest(command: Command) -> str:
    """Tells commands apart that have the same kind and target; empty if those say it all."""
    if not operation_of(command):  # it is a step of a rollout, or a message
        return ""
    kind = type(command)
    if kind not in _DETAILS:
        rest = {"actor", "request", "operation", kind.target}
        names = [part.name for part in fields(kind) if part.name not in rest]
        _DETAILS[kind] = attrgetter(*names) if names else lambda _: ""
    text = str(_DETAILS[kind](command))
    return text if len(text) <= _DIGEST_CHARACTERS else sha256(text.encode()).hexdigest()


def _kind(command: Command) -> str:
    """The kind of an operation, the same for instances of a set as for machines."""
    kind = command.action if isinstance(command, OperateInstances) else type(command)
    return kind.__name__
