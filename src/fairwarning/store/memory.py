"""The store in memory: the twin that tests and the simulator use, and what `--memory` runs on.

Entities are immutable, so references are kept and nothing is copied. No method ever suspends.
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
    arriving,
    differences,
    leaving,
    stale_version,
)
from fairwarning.store.store import Batch, JournalEntry, MachineLocation, ScopeChange

_SLACK = 256  # dead entries allowed beyond as many as live ones, before a sweep


class MemoryStore:
    """Keeps a fleet as long as the object lives; `close` and `open` again is a restart."""

    shared = None

    def __init__(self) -> None:
        self._open = False
        self._entities: dict[Ref, Entity] = {}
        self._busy: set[str] = set()  # scopes that have events
        self._sorted: dict[type[Entity], list[str]] = {}  # ids by kind, where asked for
        self._agenda = _DueTimes()
        self._places = _MachineIndex()
        self._feed = _ChangeFeed()
        self._journal = _Journal()
        self._impacts: dict[str, Impact] = {}
        self._notes: dict[str, str] = {}

    async def open(self) -> None:
        """Nothing to make ready."""
        self._open = True

    async def close(self) -> None:
        """Everything stays, for the next `open`."""
        self._open = False

    async def load(self, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        self._ready()
        return {ref: self._entities.get(ref) for ref in refs}

    async def commit(self, batch: Batch) -> float | None:
        self._ready()
        moves = self._check(batch)
        if moves:
            self._places.apply(moves)
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
        return self._agenda.first()

    def _check(self, batch: Batch) -> list[Differences]:
        """Refuse the batch before anything of it is done, or say what it does to machines."""
        moves = []
        for ref, (before, after) in batch.changes.items():
            stored = self._entities.get(ref)
            if stored is not before and (
                stored is None or before is None or stored.version != before.version
            ):
                raise stale_version(ref)
            if ref[0] is Scope and (move := differences(ref, before, after)):
                moves.append(move)
        if moves:
            self._places.check(moves)
        return moves

    def _put(self, ref: Ref, entity: Entity | None) -> None:
        if entity is None:
            del self._entities[ref]
            self._agenda.put(ref, None)
            if names := self._sorted.get(ref[0]):
                del names[bisect_left(names, ref[1])]
        else:
            if ref not in self._entities and (names := self._sorted.get(ref[0])) is not None:
                insort(names, ref[1])
            self._entities[ref] = entity
            self._agenda.put(ref, cascade.due(entity))
        if ref[0] is Scope:
            self._feed.put(ref[1])
            self._busy.discard(ref[1])
            if isinstance(entity, Scope) and entity.events:
                self._busy.add(ref[1])

    async def due_entities(self, now: float, limit: int) -> list[Ref]:
        self._ready()
        return self._agenda.until(now, limit)

    async def next_due(self) -> float | None:
        self._ready()
        return self._agenda.first()

    async def find_machines(
        self, *, name: str = "", address: str = "", number: int = 0, scope: str = ""
    ) -> list[MachineLocation]:
        self._ready()
        if scope and not name and not address:
            numbers = self._places.of_scope(self._entities.get((Scope, scope)))
        else:
            numbers = self._places.find(name, address, number)
        return [self._place(one) for one in numbers]

    async def list_machines(self, after: int, limit: int) -> list[MachineLocation]:
        self._ready()
        return [self._place(one) for one in self._places.past(after, limit)]

    def _place(self, number: int) -> MachineLocation:
        scope, name = self._places.by_number[number]
        entity = self._entities[Scope, scope]
        assert isinstance(entity, Scope)
        return MachineLocation(number, scope, entity.machines[name])

    async def list_ids(self, kind: type[Entity], after: str, limit: int) -> list[str]:
        self._ready()
        if kind not in self._sorted:
            self._sorted[kind] = sorted(name for k, name in self._entities if k is kind)
        names = self._sorted[kind]
        first = bisect_right(names, after)
        return names[first : first + limit]

    async def scopes_with_events(self, after: str, limit: int) -> list[str]:
        self._ready()
        return sorted(name for name in self._busy if name > after)[:limit]

    async def unfinished_impacts(self, after: str, limit: int) -> list[Impact]:
        self._ready()
        later = (impact for impact in self._impacts.values() if impact.id > after)
        return sorted(later, key=attrgetter("id"))[:limit]

    async def changes_since(self, after: int, limit: int) -> list[ScopeChange]:
        self._ready()
        return self._feed.past(after, limit)

    async def journal(
        self, *, after: int = 0, limit: int = 1000, entity: Ref | None = None, event: str = ""
    ) -> list[JournalEntry]:
        self._ready()
        return self._journal.past(after, limit, entity, event)

    async def operation_lines(
        self, operation: str, *, after: int, before: int, limit: int
    ) -> list[JournalEntry]:
        self._ready()
        return self._journal.between(operation, after, before, limit)

    async def latest_lines(
        self, limit: int, *, before: int | None = None, entity: Ref | None = None
    ) -> list[JournalEntry]:
        self._ready()
        return self._journal.newest(limit, before, entity)

    async def drop_old_lines(self, before: float) -> int:  # noqa: ARG002  (its end is the store's own)
        return 0

    async def get_note(self, name: str) -> str | None:
        self._ready()
        return self._notes.get(name)

    async def add_note_if_absent(self, name: str, value: str) -> str:
        self._ready()
        return self._notes.setdefault(name, value)

    async def claim_duty(self, duty: str) -> bool:  # noqa: ARG002  (there is nobody else)
        return True

    def _ready(self) -> None:
        if not self._open:
            raise Unavailable("StoreClosed", "the store is closed; open it first")


class _DueTimes:
    """Due times: a heap in which an entry that no longer holds stays until it comes up.

    What is due at the same time comes in order of creation, as in a database.
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
                self._heap = [(at, self._numbers[one], one) for one, at in self._times.items()]
                heapify(self._heap)

    def first(self) -> float | None:
        while self._heap:
            due, _, ref = self._heap[0]
            if self._times.get(ref) == due:
                return due
            heappop(self._heap)
        return None

    def until(self, now: float, limit: int) -> list[Ref]:
        found: dict[Ref, float] = {}  # a time that came back may stand in the heap twice
        while len(found) < limit and (due := self.first()) is not None and due <= now:
            found[heappop(self._heap)[2]] = due
        for ref, due in found.items():
            heappush(self._heap, (due, self._numbers[ref], ref))
        return list(found)


class _MachineIndex:
    """Where machines are, by number, by name and by address."""

    def __init__(self) -> None:
        self.by_number: dict[int, tuple[str, str]] = {}  # -> scope, name; in order of numbers
        self._last = 0
        self._names: dict[str, dict[str, int]] = {}  # name -> scope -> number
        self._addresses: dict[str, int] = {}  # -> number

    def check(self, moves: Sequence[Differences]) -> None:
        """Refuse an address that another machine has, and keeps."""
        freed = {machine.address for _, machine in leaving(moves)}
        claimed: set[str] = set()
        for _, machine in arriving(moves):
            address = machine.address
            if address and (
                address in claimed or (address in self._addresses and address not in freed)
            ):
                raise address_taken(address)
            claimed.add(address)

    def apply(self, moves: Sequence[Differences]) -> None:
        for _, machine in leaving(moves):
            self._addresses.pop(machine.address, None)
        for move in moves:
            for machine in move.gone:
                self._remove(move.scope, machine.name)
            for machine in move.fresh:
                self._last += 1
                self.by_number[self._last] = (move.scope, machine.name)
                self._names.setdefault(machine.name, {})[move.scope] = self._last
        for scope, machine in arriving(moves):
            if machine.address:
                self._addresses[machine.address] = self._names[machine.name][scope]

    def _remove(self, scope: str, name: str) -> None:
        scopes = self._names[name]
        del self.by_number[scopes.pop(scope)]
        if not scopes:
            del self._names[name]

    def find(self, name: str, address: str, number: int) -> list[int]:
        if name:
            return [found for _, found in sorted(self._names.get(name, {}).items())]
        number = self._addresses.get(address, 0) if address else number
        return [number] if number in self.by_number else []

    def of_scope(self, scope: Entity | None) -> list[int]:
        if not isinstance(scope, Scope):
            return []
        return sorted(self._names[name][scope.id] for name in scope.machines)

    def past(self, after: int, limit: int) -> list[int]:
        return list(islice((number for number in self.by_number if number > after), limit))


class _ChangeFeed:
    """Scopes in order of their newest change. An entry that a newer one replaced is passed over."""

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
        """Every batch moves the position, as in a database."""
        self._last = self._batch_began = max(self._last, self._batch_began + 1)

    def past(self, after: int, limit: int) -> list[ScopeChange]:
        found: list[ScopeChange] = []
        for at in range(bisect_right(self._positions, after), len(self._positions)):
            if len(found) == limit:
                break
            position, scope = self._positions[at], self._scopes[at]
            if self._newest[scope] == position:
                found.append(ScopeChange(position, scope))
        return found


class _Journal:
    """Lines by number, which is their place. The index is made when somebody asks for it."""

    def __init__(self) -> None:
        self.lines: list[JournalLine] = []
        self._indexed = 0
        self._numbers: dict[Ref | str, list[int]] = {}  # by entity, by event

    def past(self, after: int, limit: int, entity: Ref | None, event: str) -> list[JournalEntry]:
        first = max(after, 0)
        if entity is None and not event:
            lines = self.lines[first : first + limit]
            return [JournalEntry(number, line) for number, line in enumerate(lines, first + 1)]
        self._index()
        numbers = self._numbers.get(event or entity or "", [])
        found: list[JournalEntry] = []
        for number in numbers[bisect_right(numbers, after) :]:
            line = self.lines[number - 1]
            if len(found) < limit and entity in {None, line.entity}:
                found.append(JournalEntry(number, line))
        return found

    def between(self, operation: str, after: int, before: int, limit: int) -> list[JournalEntry]:
        first = max(after, 0)
        lines = enumerate(self.lines[first : max(before - 1, first)], first + 1)
        found = (
            JournalEntry(number, line) for number, line in lines if line.fact.operation == operation
        )
        return list(islice(found, limit))

    def newest(self, limit: int, before: int | None, entity: Ref | None) -> list[JournalEntry]:
        if entity is None:
            last = len(self.lines) if before is None else min(before - 1, len(self.lines))
            numbers: Sequence[int] = range(last, max(last - limit, 0), -1)
        else:
            self._index()
            own = self._numbers.get(entity, [])
            past = len(own) if before is None else bisect_left(own, before)
            numbers = own[max(past - limit, 0) : past][::-1]
        return [JournalEntry(number, self.lines[number - 1]) for number in numbers]

    def _index(self) -> None:
        for number in range(self._indexed + 1, len(self.lines) + 1):
            line = self.lines[number - 1]
            self._numbers.setdefault(line.entity, []).append(number)
            if line.fact.event:
                self._numbers.setdefault(line.fact.event, []).append(number)
        self._indexed = len(self.lines)
