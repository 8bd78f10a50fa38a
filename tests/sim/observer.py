"""The observer: it checks every commit, document and impact against the invariants.

It keeps its own records from the journal and the contract's numbers; it never asks the engine for
the expected result.
"""

import json
from collections.abc import Sequence

from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import FactType
from fairwarning.core.model import (
    Entity,
    Operation,
    OperationStatus,
    Ref,
    Rollout,
    Scope,
    Subnet,
)
from fairwarning.store.store import Batch
from tests.sim import invariants
from tests.sim.journal import LINES, il14
from tests.sim.observed_state import FIELDS, HIDDEN, ONLY_NEWEST, KnownEvent, ObservedState
from tests.sim.resources import c1, concerns_c1, ic8
from tests.sim.retention import ir1_operation, ir1_rollout
from tests.sim.violations import Violation, must


class Observer(ObservedState):
    """Updates the records after each observation, and checks the invariants."""

    # --- A commit -------------------------------------------------------------------------------

    def committed(self, batch: Batch) -> None:
        """Record a commit."""
        self.commits += 1
        self.timers += any(line.actor == "clock" for line in batch.lines)
        self._forget_instances(batch.lines)
        new_events: dict[str, KnownEvent] = {}
        for ref, (before, after) in batch.changes.items():
            if ref[0] is Scope:
                assert before is None or isinstance(before, Scope)
                assert after is None or isinstance(after, Scope)
                self._scope(ref[1], before, after, new_events)
            else:
                self._entity(ref, after, batch.at)
        if any(concerns_c1(*change) for change in batch.changes.items()):
            c1(self)
        if any(isinstance(after, Subnet) for _, after in batch.changes.values()):
            ic8(self)
        self.add_events(new_events)
        self._check_order(batch.lines)
        for line in batch.lines:
            self._line(line)
        for line in batch.lines:
            if line.fact.type is FactType.REPORTED_LATE:
                il14(self, line)
        must(not self.unseen, "IL1", f"{self.unseen} started but were never seen")
        for impact in batch.impacts:
            invariants.il5_begun(self, impact)

    def _entity(self, ref: Ref, after: Entity | None, at: float) -> None:
        kind, name = ref
        if kind is Operation:
            self._operation(name, after, at)
        elif kind is Rollout and after is None:
            ir1_rollout(self, name, at)
        else:
            self.keep(ref, after)

    def _operation(self, name: str, after: Entity | None, at: float) -> None:
        if not isinstance(after, Operation):
            ir1_operation(self, name, at)
        elif after.status is OperationStatus.RUNNING:
            self.open_operations[name] = after
        else:
            self.open_operations.pop(name, None)
            self.failed_operations.pop(name, None)
            if after.failed:
                self.failed_operations[name] = after

    def _forget_instances(self, lines: Sequence[JournalLine]) -> None:
        """A later set of the name of one that was removed is another one."""
        removed = {line.entity[1] for line in lines if line.fact.type is FactType.SET_REMOVED}
        if removed:
            self.instances = {known for known in self.instances if known[0] not in removed}

    def _scope(
        self,
        name: str,
        before: Scope | None,
        after: Scope | None,
        new_events: dict[str, KnownEvent],
    ) -> None:
        known = self.scopes.get(name)
        version = before and before.version
        is_stored = known is before or (known and known.version == version)
        must(is_stored, "IK1", f"{name} was decided on version {version}, not on the stored one")
        if after is None:
            self.scopes.pop(name, None)
            self.reads.pop(name, None)
            return
        self.scopes[name] = after
        invariants.id1_id2(before, after)
        invariants.id8(after)
        for event in after.events.values():
            old = before.events.get(event.id) if before else None
            if old is event:
                continue
            if old is None:
                earlier = self.events.get(event.id)
                must(earlier is None, "ID3", f"event {event.id} exists twice")
                at = invariants.announced_at(self, name, event)
                new_events[event.id] = KnownEvent(name, event, announced_at=at)
                invariants.il3(self, before, after, event)
                invariants.e5_rest(self, before, after, event)
                invariants.e11_published(self, after, event)
                invariants.e4(after, event)
                lane = self.lanes.get(event.operation.rpartition("/")[0])
                if not invariants.is_rest(self, name, event):
                    invariants.e10_host(after, event, lane)
                    invariants.e7_window(before, after, event, lane)
            else:
                invariants.il4(old, event)
        invariants.ic4(self, before, after)
        invariants.e5(after)

    def _check_order(self, lines: Sequence[JournalLine]) -> None:
        for line in lines:
            # If the last line is dropped, a reboot may have set the time back by a minute.
            earlier = line.at < self.at and self.at >= self.dropped_before
            if earlier or not line.actor:
                raise Violation(
                    "IC7", f"{line.fact.type} at {line.at} by {line.actor!r} is out of order"
                )
            self.at = line.at

    def _line(self, line: JournalLine) -> None:
        fact = line.fact
        handler = LINES.get(fact.type)
        if handler:
            handler(self, line)

    # --- What clients see -----------------------------------------------------------------------

    def read(self, scope: str, version: str, body: bytes) -> None:
        """Record a document that a machine has read."""
        stored = self.scopes[scope]
        if self.last_read.get(scope) == (version, stored.version, body):
            return  # the same as last time
        self.last_read[scope] = (version, stored.version, body)
        document = json.loads(body)
        incarnation = document["DocumentIncarnation"]
        last = self.reads.get(scope, 0)
        must(incarnation >= last, "ID6", f"{scope} read {incarnation} after {last}")
        self.reads[scope] = incarnation
        is_stored = incarnation == stored.incarnation
        must(is_stored, "ID2", f"{scope} shows {incarnation}, stored is {stored.incarnation}")
        hidden = HIDDEN.get(version, ONLY_NEWEST)
        expected = [event.id for event in stored.events.values() if event.type not in hidden]
        shown = [event["EventId"] for event in document["Events"]]
        must(shown == expected, "ID5", f"{scope} at {version} shows the wrong events")
        for event in document["Events"]:
            must(len(event) == FIELDS[version], "ID5", f"{version} shows {sorted(event)}")
            invariants.id4(event)
            invariants.id7(self, scope, event)

    def approved(self, scope: str, events: tuple[str, ...]) -> None:
        """Record an acknowledged approval."""
        for name in events:
            known = self.events.get(name.upper())
            is_own = known and known.scope == scope
            must(is_own, "IL10", f"{scope} approved {name} of another scope")
            self.acknowledged.add(name.upper())

    def settled(self, now: float) -> None:
        """Check the invariants that hold once all due work is done."""
        for scope in self.scopes.values():
            if scope.impacts or scope.events:
                invariants.il6(self, scope, now)
        invariants.ic1(self)
        invariants.e9_reports(self, now)
        for name in self.acknowledged:
            invariants.il9(self, name)
        self.acknowledged = {
            name for name in self.acknowledged if self.events[name].status == "Scheduled"
        }
