"""The store in memory, used by tests, the simulator and `--memory`.

Entities are immutable, so the store keeps references and copies nothing. No method ever suspends.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from fairwarning.core import cascade
from fairwarning.core.errors import Unavailable
from fairwarning.core.model import KINDS, Entity, Impact, Operation, Ref, Rollout, Scope
from fairwarning.store.differences import (
    Differences,
    differences,
    stale_version,
)
from fairwarning.store.memory_indexes import ChangeFeed, DueTimes, End, MachineIndex, SortedKeys
from fairwarning.store.memory_journal import MemoryJournal
from fairwarning.store.single_process import SingleProcessStore
from fairwarning.store.store import Batch, JournalEntry, MachineLocation, ScopeChange

_NEVER = (0.0, "", "")


class MemoryStore(SingleProcessStore):
    """Keeps a fleet as long as the object lives; `close` then `open` models a restart."""

    def __init__(self) -> None:
        self._open = False
        self._entities: dict[Ref, Entity] = {}
        self._ids: defaultdict[type[Entity], SortedKeys[str]] = defaultdict(SortedKeys)
        self._with_events: SortedKeys[str] = SortedKeys()  # ids of scopes that have events
        self._due_times = DueTimes()
        self._index = MachineIndex()
        self._feed = ChangeFeed()
        self._journal = MemoryJournal()
        self._ended: SortedKeys[End] = SortedKeys()
        self._removed: dict[Ref, int] = {}  # -> position, in order
        self._impacts: dict[str, Impact] = {}
        self._notes: dict[str, str] = {}
        self._polls: dict[str, float] = {}

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
        changes = [
            (ref, after, cascade.due(after) if after else None)
            for ref, (before, after) in batch.changes.items()
            if before is not after
        ]
        if diffs:
            self._index.apply(diffs)
        for change in changes:
            self._put(*change)
        self._feed.end_batch()
        self._journal.add(batch.lines)
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

    def _put(self, ref: Ref, entity: Entity | None, due: float | None) -> None:
        before = self._entities.get(ref)
        if (old := _end(before)) != (new := _end(entity)):
            if old:
                self._ended.remove(old)
            if new:
                self._ended.add(new)
        _update(self._ids[ref[0]], ref[1], before=before is not None, after=entity is not None)
        self._due_times.put(ref, due)
        if ref[0] is Scope:
            self._feed.put(ref[1])
            _update(
                self._with_events, ref[1], before=_has_events(before), after=_has_events(entity)
            )
        if entity is None:
            del self._entities[ref]
            self._removed[ref] = self._feed.position
        else:
            self._entities[ref] = entity
            self._removed.pop(ref, None)

    async def due_entities(self, now: float, limit: int) -> list[Ref]:
        self._check_open()
        return self._due_times.until(now, limit)

    async def next_due(self) -> float | None:
        self._check_open()
        return self._due_times.first()

    async def find_machines(self, *, name: str = "", scope: str = "") -> list[MachineLocation]:
        self._check_open()
        if name:
            numbers = self._index.of_name(name)
        else:
            numbers = self._index.of_scope(self._entities.get((Scope, scope)))
        return [self._location(number) for number in numbers]

    async def locate_machines(self, keys: Sequence[int | str]) -> dict[int | str, MachineLocation]:
        self._check_open()
        numbers = {key: self._index.number_at(key) for key in keys}
        return {key: self._location(number) for key, number in numbers.items() if number}

    async def list_machines(self, after: int, limit: int) -> list[MachineLocation]:
        self._check_open()
        return [self._location(number) for number in self._index.numbers.after(after, limit)]

    def _location(self, number: int) -> MachineLocation:
        scope, name = self._index.by_number[number]
        entity = self._entities[Scope, scope]
        assert isinstance(entity, Scope)
        return MachineLocation(number, scope, entity.machines[name])

    async def list_ids(self, kind: type[Entity], after: str, limit: int) -> list[str]:
        self._check_open()
        return self._ids[kind].after(after, limit)

    async def scopes_with_events(self, after: str, limit: int) -> list[str]:
        self._check_open()
        return self._with_events.after(after, limit)

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

    async def position(self) -> int:
        self._check_open()
        return self._feed.position

    async def record_polls(self, polls: Mapping[str, float]) -> None:
        self._check_open()
        for scope, at in polls.items():
            self._polls[scope] = max(at, self._polls.get(scope, 0.0))

    async def recorded_polls(self, scopes: Iterable[str]) -> dict[str, float]:
        self._check_open()
        return {scope: self._polls[scope] for scope in scopes if scope in self._polls}

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

    async def ended_entities(self, before: float, limit: int) -> list[Ref]:
        self._check_open()
        earliest = self._ended.after(_NEVER, limit)
        return [(KINDS[kind], name) for at, kind, name in earliest if at < before]

    async def drop_old_lines(self, before: float) -> int:
        self._check_open()
        return self._journal.drop_old(before)

    async def drop_tombstones(self, until: int) -> int:
        self._check_open()
        old = [ref for ref, position in self._removed.items() if position <= until]
        for ref in old:
            del self._removed[ref]
            self._due_times.forget(ref)
            if ref[0] is Scope:
                self._feed.forget(ref[1])
                self._polls.pop(ref[1], None)
        return len(old)

    async def drop_notes(self, notes: Mapping[str, str]) -> None:
        self._check_open()
        for name, value in notes.items():
            if self._notes.get(name) == value:
                del self._notes[name]

    def _check_open(self) -> None:
        if not self._open:
            raise Unavailable("StoreClosed", "the store is closed; open it first")


def _update(keys: SortedKeys[str], key: str, *, before: bool, after: bool) -> None:
    if after and not before:
        keys.add(key)
    elif before and not after:
        keys.remove(key)


def _has_events(entity: Entity | None) -> bool:
    return isinstance(entity, Scope) and bool(entity.events)


def _end(entity: Entity | None) -> End | None:
    if not isinstance(entity, Operation | Rollout) or entity.ended_at is None:
        return None
    return entity.ended_at, type(entity).__name__, entity.id
