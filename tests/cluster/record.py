"""The books, kept from what the witness saw: every committed batch held against the invariants.

The functions are the simulator's; what differs is that time is real and notices are short.
"""

from dataclasses import dataclass, field

from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import FactType
from fairwarning.core.model import (
    Entity,
    Event,
    EventType,
    Machine,
    Operation,
    OperationStatus,
    Ref,
    Rollout,
    ScaleSet,
    Scope,
)
from fairwarning.core.record import changed
from tests.cluster.witness import Seen, Written
from tests.sim.books import Books
from tests.sim.books import KnownEvent as Known
from tests.sim.invariants import e4, ic4, id1_id2, id8, il4, il5_begun
from tests.sim.journal import LINES
from tests.sim.violations import must

NOTICE_SECONDS = {EventType.TERMINATE: 300}
SHORT_NOTICE_SECONDS = 1  # of all others here
LATE_SECONDS = 10  # that an event may be; twice what is promised, for machines that are busy
CLOCKS_SECONDS = 0.5  # by which two processes may think differently of the time


@dataclass(slots=True)
class State:
    """A scope as it was committed, and for how long it was the newest."""

    scope: Scope
    since: float
    until: float = float("inf")


@dataclass(slots=True)
class Record(Books):
    """Everything that was committed."""

    lines: list[JournalLine] = field(default_factory=list)
    actors: set[str] = field(default_factory=set)
    versions: dict[Ref, int] = field(default_factory=dict)  # -1: it is gone
    bodies: dict[Ref, Entity] = field(default_factory=dict)
    states: dict[str, dict[int, State]] = field(default_factory=dict)  # by scope and version
    removed: dict[str, float] = field(default_factory=dict)  # scopes
    machines: dict[str, dict[str, Machine]] = field(default_factory=dict)  # by scope and name
    began: dict[str, float] = field(default_factory=dict)  # impacts: when that was committed
    over: dict[str, float] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)  # events
    latest_start: float = 0.0  # seconds past NotBefore
    accepted_in: dict[str, dict[str, int]] = field(default_factory=dict)
    """By actor: the versions of the scopes that its command made."""
    told_at: dict[Ref, float] = field(default_factory=dict)

    def committed(self, seen: Seen) -> None:
        """A batch became durable."""
        self.commits += 1
        for name, machine in seen.gone:
            del self.machines[name][machine]
        for name, one in seen.machines:
            self.machines.setdefault(name, {})[one.name] = one
        for ref, was in seen.read:
            self._decided_on(ref, was)
        for written in seen.entities:
            self._decided_on(written.ref, written.was)
        fresh: dict[str, Known] = {}
        for written in seen.entities:
            self._chain(written)
            if written.ref[0] is Scope:
                assert written.entity is None or isinstance(written.entity, Scope)
                self._scope(written.ref[1], written.entity, seen.at, fresh)
            else:
                self._entity(written.ref, written.entity)
        self.events.update(fresh)
        self.open.update(fresh)
        self._lines(seen)
        for impact in seen.impacts:
            il5_begun(self, impact)
            self.began[impact.id] = seen.at
        self.over.update(dict.fromkeys(seen.settled, seen.at))
        for written in seen.entities:
            if written.ref[0] is Scope:
                self._adds_up(written.ref[1])

    def _decided_on(self, ref: Ref, was: int) -> None:
        """IK1: each batch is decided on what is there, and on nothing else."""
        known = self.versions.get(ref, -1)
        name = f"{ref[0].__name__} {ref[1]}"
        must(was == known, "IK1", f"a batch was decided on {name} at {was}, which is at {known}")

    def _chain(self, written: Written) -> None:
        """IK1: each version follows the one before it."""
        if written.entity is None:
            self.versions[written.ref] = -1
            self.bodies.pop(written.ref, None)
            return
        name = f"{written.ref[0].__name__} {written.ref[1]}"
        must(written.entity.version > written.was, "IK1", f"{name} stays at {written.was}")
        self.versions[written.ref] = written.entity.version
        self.bodies[written.ref] = written.entity

    def _scope(self, name: str, bare: Scope | None, at: float, fresh: dict[str, Known]) -> None:
        before = self.scopes.get(name)
        if before:
            self.states[name][before.version].until = at
        if bare is None:
            self.scopes.pop(name, None)
            self.removed[name] = at
            return
        after = changed(bare, machines=dict(self.machines.get(name, {})))
        self.scopes[name] = after
        self.states.setdefault(name, {})[after.version] = State(after, at)
        id1_id2(before, after)
        id8(after)
        ic4(self, before, after)
        for event in after.events.values():
            self._event(after, before.events.get(event.id) if before else None, event, fresh)

    def _event(
        self, scope: Scope, old: Event | None, event: Event, fresh: dict[str, Known]
    ) -> None:
        if old:
            il4(old, event)
            return
        must(event.id not in self.events, "ID3", f"event {event.id} came back")
        fresh[event.id] = Known(scope.id, event)
        e4(scope, event)
        notice = NOTICE_SECONDS.get(event.type, SHORT_NOTICE_SECONDS)
        given = event.not_before - event.created_at
        must(given >= notice, "IL3", f"{event.type} {event.id} has {given:.3f} s of notice")

    def _entity(self, ref: Ref, entity: Entity | None) -> None:
        kind, name = ref
        if isinstance(entity, Operation):
            self.open_operations[name] = entity
            if entity.status is not OperationStatus.RUNNING:
                del self.open_operations[name]
        elif isinstance(entity, ScaleSet):
            self.sets[name] = entity
        elif isinstance(entity, Rollout):
            self.rollouts[name] = entity
        elif kind is ScaleSet:
            del self.sets[name]

    def _lines(self, seen: Seen) -> None:
        made = {
            one.ref[1]: one.entity.version
            for one in seen.entities
            if one.ref[0] is Scope and one.entity
        }
        for line in seen.lines:
            self.lines.append(line)
            self.actors.add(line.actor)
            self.accepted_in.setdefault(line.actor, {}).update(made)
            last = self.told_at.get(line.entity, 0.0)
            must(
                line.actor and line.at > last - CLOCKS_SECONDS,
                "IC7",
                f"{line.fact.type} of {line.entity[1]} is told {last - line.at:.3f} s too late",
            )
            self.told_at[line.entity] = max(last, line.at)
            if handler := LINES.get(line.fact.type):
                handler(self, line)
            if line.fact.type is FactType.STARTED:
                self._started(line.fact.event, seen.at)

    def _started(self, event: str, at: float) -> None:
        self.started.add(event)
        late = at - self.events[event].event.not_before
        self.latest_start = max(self.latest_start, late)
        must(late < LATE_SECONDS, "IL6", f"{event} started {late:.1f} s too late")

    def _adds_up(self, name: str) -> None:
        """IC7: what the journal tells of a scope's events is what became of them."""
        scope = self.scopes.get(name)
        shown = {one.id: str(one.status) for one in scope.events.values()} if scope else {}
        told = {one: known.status for one, known in self.open.items() if known.scope == name}
        must(shown == told, "IC7", f"{name} has {shown}, and the journal tells of {told}")

    # --- The end ---

    def settled(self) -> None:
        """Nothing is under way any more (IL6, IC1, IC6)."""
        for scope in self.scopes.values():
            must(not scope.events, "IL6", f"{scope.id} still shows {list(scope.events)}")
            must(not scope.impacts, "IL6", f"{scope.id} still has {list(scope.impacts)}")
        must(not self.open_operations, "IC1", f"open: {list(self.open_operations)}")
        for rollout in self.rollouts.values():
            behind = rollout.done + rollout.failed + rollout.skipped
            must(behind == rollout.machines, "IC6", f"{rollout.id} counted {behind} machines")
        unfinished = [one for one in self.began if one not in self.over]
        must(not unfinished, "IL6", f"never over: {unfinished}")
