"""Checks every committed batch, as the database recorded it, against the invariants.

The checks are the simulator's; but here time is real and notices are short.
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
    Scope,
)
from fairwarning.core.record import changed
from tests.cluster.commit_recorder import CommittedBatch, EntityWrite
from tests.fixtures.waiting import on_this_machine
from tests.sim.invariants import e4, ic4, id1_id2, id8, il4, il5_begun
from tests.sim.journal import LINES
from tests.sim.observed_state import KnownEvent, ObservedState
from tests.sim.violations import must

NOTICE_SECONDS = {EventType.TERMINATE: 300}
SHORT_NOTICE_SECONDS = 1  # of all other types here
LATE_SECONDS = 10  # that an event may start late; twice what is promised
CLOCKS_SECONDS = 0.5  # by which the clocks of two processes may differ (IK4)


@dataclass(slots=True)
class State:
    """A committed scope, and when it was the newest."""

    scope: Scope
    since: float
    until: float = float("inf")


@dataclass(slots=True)
class CommittedState(ObservedState):
    """Everything that was committed."""

    lines: list[JournalLine] = field(default_factory=list)
    actors: set[str] = field(default_factory=set)
    versions: dict[Ref, int] = field(default_factory=dict)  # -1: removed
    bodies: dict[Ref, Entity] = field(default_factory=dict)
    states: dict[str, dict[int, State]] = field(default_factory=dict)  # by scope and version
    removed: dict[str, float] = field(default_factory=dict)  # scopes
    machines: dict[str, dict[str, Machine]] = field(default_factory=dict)  # by scope and name
    began: dict[str, float] = field(default_factory=dict)  # impacts, with the time of the commit
    over: dict[str, float] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)  # events
    latest_start: float = 0.0  # seconds past NotBefore
    accepted_in: dict[str, dict[str, int]] = field(default_factory=dict)
    """By actor: the scope versions that its command created."""
    last_line_at: dict[Ref, float] = field(default_factory=dict)
    most_shift: float = float("-inf")

    def add(self, batch: CommittedBatch) -> None:
        """Add a committed batch."""
        self.commits += 1
        for scope, name in batch.removed:
            del self.machines[scope][name]
        for scope, machine in batch.machines:
            self.machines.setdefault(scope, {})[machine.name] = machine
        for ref, expected in batch.read:
            self._check_version(ref, expected)
        for write in batch.entities:
            self._check_version(write.ref, write.expected)
        created: dict[str, KnownEvent] = {}
        for write in batch.entities:
            self._add_version(write)
            if write.ref[0] is Scope:
                assert write.entity is None or isinstance(write.entity, Scope)
                self._add_scope(write.ref[1], write.entity, batch.at, created)
            else:
                self._add_entity(write.ref, write.entity)
        self.add_events(created)
        self._add_lines(batch)
        for impact in batch.impacts:
            il5_begun(self, impact)
            self.began[impact.id] = batch.at
        self.over.update(dict.fromkeys(batch.settled, batch.at))
        for write in batch.entities:
            if write.ref[0] is Scope:
                self._check_journal(write.ref[1])

    def _check_version(self, ref: Ref, expected: int) -> None:
        """IK1: each batch is decided on the current versions."""
        known = self.versions.get(ref, -1)
        name = f"{ref[0].__name__} {ref[1]}"
        must(expected == known, "IK1", f"a batch was decided on {name} at {expected}, not {known}")

    def _add_version(self, write: EntityWrite) -> None:
        """IK1: versions increase."""
        if write.entity is None:
            self.versions[write.ref] = -1
            self.bodies.pop(write.ref, None)
            return
        name = f"{write.ref[0].__name__} {write.ref[1]}"
        must(write.entity.version > write.expected, "IK1", f"{name} stays at {write.expected}")
        self.versions[write.ref] = write.entity.version
        self.bodies[write.ref] = write.entity

    def _add_scope(
        self, name: str, stored: Scope | None, at: float, created: dict[str, KnownEvent]
    ) -> None:
        before = self.scopes.get(name)
        if before:
            self.states[name][before.version].until = at
        if stored is None:
            self.scopes.pop(name, None)
            self.removed[name] = at
            return
        after = changed(stored, machines=dict(self.machines.get(name, {})))
        self.scopes[name] = after
        self.states.setdefault(name, {})[after.version] = State(after, at)
        id1_id2(before, after)
        id8(after)
        ic4(self, before, after)
        for event in after.events.values():
            self._add_event(after, before.events.get(event.id) if before else None, event, created)

    def _add_event(
        self, scope: Scope, old: Event | None, event: Event, created: dict[str, KnownEvent]
    ) -> None:
        if old:
            il4(old, event)
            return
        must(event.id not in self.events, "ID3", f"event {event.id} came back")
        created[event.id] = KnownEvent(scope.id, event)
        e4(scope, event)
        required = NOTICE_SECONDS.get(event.type, SHORT_NOTICE_SECONDS)
        notice = event.not_before - event.created_at
        must(notice >= required, "IL3", f"{event.type} {event.id} has {notice:.3f} s of notice")

    def _add_entity(self, ref: Ref, entity: Entity | None) -> None:
        if not isinstance(entity, Operation):
            self.keep(ref, entity)
        elif entity.status is OperationStatus.RUNNING:
            self.open_operations[ref[1]] = entity
        else:
            self.open_operations.pop(ref[1], None)

    def _add_lines(self, batch: CommittedBatch) -> None:
        versions = {
            write.ref[1]: write.entity.version
            for write in batch.entities
            if write.ref[0] is Scope and write.entity
        }
        self.most_shift = max(self.most_shift, batch.shift)
        # Time that nobody has proven is taken back (E11), and each process takes a while to follow.
        differ = on_this_machine(CLOCKS_SECONDS) + self.most_shift - batch.shift
        for line in batch.lines:
            self.lines.append(line)
            self.actors.add(line.actor)
            self.accepted_in.setdefault(line.actor, {}).update(versions)
            last = self.last_line_at.get(line.entity, 0.0)
            late = last - line.at
            in_order = line.actor and late < differ
            must(in_order, "IC7", f"{line.fact.type} of {line.entity[1]} is {late:.3f} s too late")
            self.last_line_at[line.entity] = max(last, line.at)
            if handler := LINES.get(line.fact.type):
                handler(self, line)
            if line.fact.type is FactType.STARTED:
                event = self.events[line.fact.event].event
                self.started.add(event.id)
                late = batch.at + batch.shift - event.not_before
                self.latest_start = max(self.latest_start, late)
                in_time = late < on_this_machine(LATE_SECONDS)
                must(in_time, "IL6", f"{event.id} started {late:.1f} s too late")

    def _check_journal(self, name: str) -> None:
        """IC7: the journal agrees with the events of a scope."""
        scope = self.scopes.get(name)
        shown = {event.id: str(event.status) for event in scope.events.values()} if scope else {}
        logged = {event: known.status for event, known in self.open.items() if known.scope == name}
        must(shown == logged, "IC7", f"{name} has {shown}, but the journal has {logged}")

    # --- The end ---

    def check_settled(self) -> None:
        """Everything has finished (IL6, IC1, IC6)."""
        for scope in self.scopes.values():
            must(not scope.events, "IL6", f"{scope.id} still shows {list(scope.events)}")
            must(not scope.impacts, "IL6", f"{scope.id} still has {list(scope.impacts)}")
        must(not self.open_operations, "IC1", f"open: {list(self.open_operations)}")
        for rollout in self.rollouts.values():
            counted = rollout.done + rollout.failed + rollout.skipped
            must(counted == rollout.machines, "IC6", f"{rollout.id} counted {counted} machines")
        unfinished = [impact for impact in self.began if impact not in self.over]
        must(not unfinished, "IL6", f"never over: {unfinished}")
