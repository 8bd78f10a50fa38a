"""The store in memory, used by tests, the simulator and `--memory`.

Entities are immutable, so the store keeps references and copies nothing. No method ever suspends.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from operator import attrgetter

from fairwarning.core import cascade
from fairwarning.core.cascade import JournalLine
from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Entity, Impact, Ref, Scope
from fairwarning.store.differences import (
    Differences,
    address_taken,
    differences,
    machines_after,
    machines_before,
    stale_version,
)
from fairwarning.store.store import Batch, JournalEntry, MachineLocation, ScopeChange

_SLACK = 256  # stale entries allowed beyond the number of live ones before a rebuild


class MemoryStore:
    """Keeps a fleet as long as the object lives; `close` then `open` models a restart."""

    shared = None

    def __init__(self) -> None:
        self._open = False
        self._entities: dict[Ref, Entity] = {}
        self._with_events: set[str] = set()  # ids of scopes that have events
        self._sorted: dict[type[Entity], list[str]] = {}  # ids by kind, built on first use
        self._due_times = _DueTimes()
        self._index = _MachineIndex()
        self._feed = _ChangeFeed()
        self._journal = _Journal()
        self._impacts: dict[str, Impact] = {}
        self._notes: dict[str, str] = {}

    async def open(self) -> None:
        """Open the store; there is nothing to prepare."""
        self._open = True

    async def close(self) -> None:
        """Close the store; its content stays for the next `open`."""
        self._open = False

    async def load(self, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        self._check_open()
        return {ref: self._entities.get(ref) for ref in refs}

    async def commit(self, batch: Batch) -> float | None:
        self._check_open()
        diffs = self._check(batch)
        if diffs:
            self._index.apply(diffs)
        for ref, (before, after) in batch.changes.items():
            if before is not after:
                self._put(ref, after)
        self._feed.end_batch()
        self._journal.lines.extend(batch.lines)
        for impact in batch.impacts:
            self._impacts[impact.id] = impact
        for name in batch.settled:
            self._impacts.pop(name, None)
        self._notes.update(batch.notes)
        return self._due_times.first()

    def _check(self, batch: Batch) -> list[Differences]:
        """Reject a conflicting batch before any of it is applied; return the machine changes."""
        diffs = []
        for ref, (before, after) in batch.changes.items():
            stored = self._entities.get(ref)
            if stored is not before and (
                stored is None or before is None or stored.version != before.version
            ):
                raise stale_version(ref)
            if ref[0] is Scope and (diff := differences(ref, before, after)):
                diffs.append(diff)
        if diffs:
            self._index.check(diffs)
        return diffs

    def _put(self, ref: Ref, entity: Entity | None) -> None:
        if entity is None:
            del self._entities[ref]
            self._due_times.put(ref, None)
            if names := self._sorted.get(ref[0]):
                del names[bisect_left(names, ref[1])]
        else:
            if ref not in self._entities and (names := self._sorted.get(ref[0])) is not None:
                insort(names, ref[1])
            self._entities[ref] = entity
            self._due_times.put(ref, cascade.due(entity))
        if ref[0] is Scope:
            self._feed.put(ref[1])
            self._with_events.discard(ref[1])
            if isinstance(entity, Scope) and entity.events:
                self._with_events.add(ref[1])

    async def due_entities(self, now: float, limit: int) -> list[Ref]:
        self._check_open()
        return self._due_times.until(now, limit)

    async def next_due(self) -> float | None:
        self._check_open()
        return self._due_times.first()

    async def find_machines(
        self, *, name: str = "", address: str = "", number: int = 0, scope: str = ""
    ) -> list[MachineLocation]:
        self._check_open()
        if scope and not name and not address:
            numbers = self._index.of_scope(self._entities.get((Scope, scope)))
        else:
            numbers = self._index.find(name, address, number)
        return [self._location(number) for number in numbers]

    async def list_machines(self, after: int, limit: int) -> list[MachineLocation]:
        self._check_open()
        return [self._location(number) for number in self._index.after(after, limit)]

    def _location(self, number: int) -> MachineLocation:
        scope, name = self._index.by_number[number]
        entity = self._entities[Scope, scope]
        assert isinstance(entity, Scope)
        return MachineLocation(number, scope, entity.machines[name])

    async def list_ids(self, kind: type[Entity], after: str, limit: int) -> list[str]:
        self._check_open()
        if kind not in self._sorted:
            self._sorted[kind] = sorted(name for k, name in self._entities if k is kind)
        names = self._sorted[kind]
        first = bisect_right(names, after)
        return names[first : first + limit]

    async def scopes_with_events(self, after: str, limit: int) -> list[str]:
        self._check_open()
        return sorted(name for name in self._with_events if name > after)[:limit]

    async def unfinished_impacts(self, after: str, limit: int) -> list[Impact]:
        self._check_open()
        later = (impact for impact in self._impacts.values() if impact.id > after)
        return sorted(later, key=attrgetter("id"))[:limit]

    async def changes_since(self, after: int, limit: int) -> list[ScopeChange]:
        self._check_open()
        return self._feed.after(after, limit)

    async def journal(
        self, *, after: int = 0, limit: int = 1000, entity: Ref | None = None, event: str = ""
    ) -> list[JournalEntry]:
        self._check_open()
        return self._journal.after(after, limit, entity, event)

    async def operation_lines(
        self, operation: str, *, after: int, before: int, limit: int
    ) -> list[JournalEntry]:
        self._check_open()
        return self._journal.between(operation, after, before, limit)

    async def latest_lines(
        self, limit: int, *, before: int | None = None, entity: Ref | None = None
    ) -> list[JournalEntry]:
        self._check_open()
        return self._journal.newest(limit, before, entity)

    async def drop_old_lines(self, before: float) -> int:  # noqa: ARG002  (memory keeps all lines)
        return 0

    async def get_note(self, name: str) -> str | None:
        self._check_open()
        return self._notes.get(name)

    async def add_note_if_absent(self, name: str, value: str) -> str:
        self._check_open()
        return self._notes.setdefault(name, value)

    async def list_notes(self, prefix: str, after: str, limit: int) -> dict[str, str]:
        self._check_open()
        names = sorted(name for name in self._notes if name.startswith(prefix) and name > after)
        return {name: self._notes[name] for name in names[:limit]}

    async def remove_notes(self, names: Sequence[str]) -> None:
        self._check_open()
        for name in names:
            self._notes.pop(name, None)

    async def claim_duty(self, duty: str) -> bool:  # noqa: ARG002  (no other process exists)
        return True

    def _check_open(self) -> None:
        if not self._open:
            raise Unavailable("StoreClosed", "the store is closed; open it first")


class _DueTimes:
    """Due times: a heap in which an outdated entry stays until it reaches the top.

    Entities due at the same time come in order of creation, as in the databases.
    """

    def __init__(self) -> None:
        self._times: dict[Ref, float] = {}
        self._numbers: dict[Ref, int] = {}
        self._heap: list[tuple[float, int, Ref]] = []

    def put(self, ref: Ref, due: float | None) -> None:
        number = self._numbers.setdefault(ref, len(self._numbers))
        if due is None:
            self._times.pop(ref, None)
        elif self._times.get(ref) != due:
            self._times[ref] = due
            heappush(self._heap, (due, number, ref))
            if len(self._heap) > 2 * len(self._times) + _SLACK:
                self._heap = [(at, self._numbers[key], key) for key, at in self._times.items()]
                heapify(self._heap)

    def first(self) -> float | None:
        while self._heap:
            due, _, ref = self._heap[0]
            if self._times.get(ref) == due:
                return due
            heappop(self._heap)
        return None

    def until(self, now: float, limit: int) -> list[Ref]:
        due_refs: dict[Ref, float] = {}  # a time that was set twice may be in the heap twice
        while len(due_refs) < limit and (due := self.first()) is not None and due <= now:
            due_refs[heappop(self._heap)[2]] = due
        for ref, due in due_refs.items():
            heappush(self._heap, (due, self._numbers[ref], ref))
        return list(due_refs)


class _MachineIndex:
    """Machines by number, by name and by address."""

    def __init__(self) -> None:
        self.by_number: dict[int, tuple[str, str]] = {}  # -> scope, name; in order of number
        self._last = 0
        self._names: dict[str, dict[str, int]] = {}  # name -> scope -> number
        self._addresses: dict[str, int] = {}  # -> number

    def check(self, diffs: Sequence[Differences]) -> None:
        """Reject an address that another machine has and keeps."""
        freed = {machine.address for _, machine in machines_before(diffs)}
        claimed: set[str] = set()
        for _, machine in machines_after(diffs):
            address = machine.address
            if address and (
                address in claimed or (address in self._addresses and address not in freed)
            ):
                raise address_taken(address)
            claimed.add(address)

    def apply(self, diffs: Sequence[Differences]) -> None:
        for _, machine in machines_before(diffs):
            self._addresses.pop(machine.address, None)
        for diff in diffs:
            for machine in diff.removed:
                self._remove(diff.scope, machine.name)
            for machine in diff.added:
                self._last += 1
                self.by_number[self._last] = (diff.scope, machine.name)
                self._names.setdefault(machine.name, {})[diff.scope] = self._last
        for scope, machine in machines_after(diffs):
            if machine.address:
                self._addresses[machine.address] = self._names[machine.name][scope]

    def _remove(self, scope: str, name: str) -> None:
        scopes = self._names[name]
        del self.by_number[scopes.pop(scope)]
        if not scopes:
            del self._names[name]

    def find(self, name: str, address: str, number: int) -> list[int]:
        if name:
            return [known for _, known in sorted(self._names.get(name, {}).items())]
        number = self._addresses.get(address, 0) if address else number
        return [number] if number in self.by_number else []

    def of_scope(self, scope: Entity | None) -> list[int]:
        if not isinstance(scope, Scope):
            return []
        return sorted(self._names[name][scope.id] for name in scope.machines)

    def after(self, after: int, limit: int) -> list[int]:
        return list(islice((number for number in self.by_number if number > after), limit))


class _ChangeFeed:
    """Scopes in order of their latest change. Readers skip an entry that a newer one replaced."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}
        self._positions: list[int] = []
        self._scopes: list[str] = []
        self._last = self._batch_began = 0

    def put(self, scope: str) -> None:
        self._last += 1
        self._newest[scope] = self._last
        self._positions.append(self._last)
        self._scopes.append(scope)
        if len(self._scopes) > 2 * len(self._newest) + _SLACK:
            order = sorted((position, name) for name, position in self._newest.items())
            self._positions = [position for position, _ in order]
            self._scopes = [name for _, name in order]

    def end_batch(self) -> None:
        """Advance the position with every batch, as in the databases."""
        self._last = self._batch_began = max(self._last, self._batch_began + 1)

    def after(self, after: int, limit: int) -> list[ScopeChange]:
        changes: list[ScopeChange] = []
        for at in range(bisect_right(self._positions, after), len(self._positions)):
            if len(changes) == limit:
                break
            position, scope = self._positions[at], self._scopes[at]
            if self._newest[scope] == position:
                changes.append(ScopeChange(position, scope))
        return changes


class _Journal:
    """Lines by number, which is their position in the list. The index is built on first use."""

    def __init__(self) -> None:
        self.lines: list[JournalLine] = []
        self._indexed = 0
        self._numbers: dict[Ref | str, list[int]] = {}  # by entity, by event

    def after(self, after: int, limit: int, entity: Ref | None, event: str) -> list[JournalEntry]:
        first = max(after, 0)
        if entity is None and not event:
            lines = self.lines[first : first + limit]
            return [JournalEntry(number, line) for number, line in enumerate(lines, first + 1)]
        self._index()
        numbers = self._numbers.get(event or entity or "", [])
        entries: list[JournalEntry] = []
        for number in numbers[bisect_right(numbers, after) :]:
            line = self.lines[number - 1]
            if len(entries) < limit and entity in {None, line.entity}:
                entries.append(JournalEntry(number, line))
        return entries

    def between(self, operation: str, after: int, before: int, limit: int) -> list[JournalEntry]:
        first = max(after, 0)
        lines = enumerate(self.lines[first : max(before - 1, first)], first + 1)
        entries = (
            JournalEntry(number, line) for number, line in lines if line.fact.operation == operation
        )
        return list(islice(entries, limit))

    def newest(self, limit: int, before: int | None, entity: Ref | None) -> list[JournalEntry]:
        if entity is None:
            last = len(self.lines) if before is None else min(before - 1, len(self.lines))
            numbers: Sequence[int] = range(last, max(last - limit, 0), -1)
        else:
            self._index()
            own = self._numbers.get(entity, [])
            end = len(own) if before is None else bisect_left(own, before)
            numbers = own[max(end - limit, 0) : end][::-1]
        return [JournalEntry(number, self.lines[number - 1]) for number in numbers]

    def _index(self) -> None:
        for number in range(self._indexed + 1, len(self.lines) + 1):
            line = self.lines[number - 1]
            self._numbers.setdefault(line.entity, []).append(number)
            if line.fact.event:
                self._numbers.setdefault(line.fact.event, []).append(number)
        self._indexed = len(self.lines)
