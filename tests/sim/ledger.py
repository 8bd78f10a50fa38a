"""The observer: it sees every commit, document and impact, and holds each against the invariants.

It keeps books of its own from the journal and the contract's numbers; it never asks the engine
what is right.
"""

import json
from collections.abc import Sequence

from fairwarning.core.cascade import JournalLine
from fairwarning.core.model import (
    Entity,
    Operation,
    OperationStatus,
    Resource,
    Rollout,
    ScaleSet,
    Scope,
)
from fairwarning.store.store import Batch
from tests.sim.books import FIELDS, HIDDEN, ONLY_NEWEST, Books, Known
from tests.sim.invariants import e4, ic1, ic4, id1_id2, id4, id7, id8, il3, il4, il5_begun, il6, il9
from tests.sim.journal import LINES
from tests.sim.resources import c1, concerns_c1
from tests.sim.violations import Violation, must


class Ledger(Books):
    """The books, and what is written into them when."""

    # --- A commit -------------------------------------------------------------------------------

    def committed(self, batch: Batch) -> None:
        """Something became durable."""
        self.commits += 1
        self.timers += any(line.actor == "clock" for line in batch.lines)
        fresh: dict[str, Known] = {}
        for (kind, name), (before, after) in batch.changes.items():
            if kind is Scope:
                assert before is None or isinstance(before, Scope)
                assert after is None or isinstance(after, Scope)
                self._scope(name, before, after, fresh)
            else:
                self._entity(kind, name, after)
        if any(concerns_c1(*change) for change in batch.changes.items()):
            c1(self)
        self.events.update(fresh)
        self.open.update(fresh)
        self._same_time(batch.lines)
        for line in batch.lines:
            self._line(line)
        for impact in batch.impacts:
            il5_begun(self, impact)

    def _entity(self, kind: type[Entity], name: str, after: Entity | None) -> None:
        if isinstance(after, Operation):
            if after.status is OperationStatus.RUNNING:
                self.open_operations[name] = after
            else:
                self.open_operations.pop(name, None)
        elif isinstance(after, ScaleSet):
            self.sets[name] = after
        elif isinstance(after, Rollout):
            self.rollouts[name] = after
        elif isinstance(after, Resource):
            self.resources[name] = after
        elif kind is ScaleSet:
            self.sets.pop(name, None)
        elif kind is Resource:
            self.resources.pop(name, None)

    def _scope(
        self, name: str, before: Scope | None, after: Scope | None, fresh: dict[str, Known]
    ) -> None:
        known = self.scopes.get(name)
        must(
            known is before or (known and before and known.version == before.version),
            "IK1",
            f"{name} was decided on version {before and before.version}, not on the stored one",
        )
        if after is None:
            self.scopes.pop(name, None)
            self.reads.pop(name, None)
            return
        self.scopes[name] = after
        id1_id2(before, after)
        id8(after)
        for event in after.events.values():
            old = before.events.get(event.id) if before else None
            if old is event:
                continue
            if old is None:
                seen = self.events.get(event.id)
                must(seen is None, "ID3", f"event {event.id} came back, or is in two scopes")
                fresh[event.id] = Known(name, event)
                il3(after, event)
                e4(after, event)
            else:
                il4(old, event)
        ic4(self, before, after)

    def _same_time(self, lines: Sequence[JournalLine]) -> None:
        for line in lines:
            if line.at < self.at or not line.actor:
                raise Violation(
                    "IC7", f"{line.fact.type} at {line.at} by {line.actor!r} is out of order"
                )
            self.at = line.at

    def _line(self, line: JournalLine) -> None:
        fact = line.fact
        handler = LINES.get(fact.type)
        if handler:
            handler(self, line)

    # --- What the outside sees ------------------------------------------------------------------

    def read(self, scope: str, version: str, body: bytes) -> None:
        """A machine read its document."""
        stored = self.scopes[scope]
        if self.looked_at.get(scope) == (version, stored.version, body):
            return  # the very same as last time
        self.looked_at[scope] = (version, stored.version, body)
        document = json.loads(body)
        incarnation = document["DocumentIncarnation"]
        must(
            incarnation >= self.reads.get(scope, 0),
            "ID6",
            f"{scope} read {incarnation} after {self.reads.get(scope)}",
        )
        self.reads[scope] = incarnation
        must(
            incarnation == stored.incarnation,
            "ID2",
            f"{scope} shows {incarnation}, stored is {stored.incarnation}",
        )
        hidden = HIDDEN.get(version, ONLY_NEWEST)
        expected = [e.id for e in stored.events.values() if e.type not in hidden]
        must(
            [e["EventId"] for e in document["Events"]] == expected,
            "ID5",
            f"{scope} at {version} shows other events than it should",
        )
        for event in document["Events"]:
            must(len(event) == FIELDS[version], "ID5", f"{version} shows {sorted(event)}")
            id4(event)
            id7(self, scope, event)

    def approved(self, scope: str, events: tuple[str, ...]) -> None:
        """An approval was acknowledged."""
        for name in events:
            known = self.events.get(name.upper())
            must(
                known and known.scope == scope, "IL10", f"{scope} approved {name}, which is not its"
            )
            self.acknowledged.add(name.upper())

    def settled(self, now: float) -> None:
        """All that was due has been worked off."""
        for scope in self.scopes.values():
            if scope.impacts or scope.events:
                il6(scope, now)
        ic1(self)
        for name in self.acknowledged:
            il9(self, name)
        self.acknowledged = {n for n in self.acknowledged if self.events[n].status == "Scheduled"}
