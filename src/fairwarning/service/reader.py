"""Reads committed entities, machines and journal lines, from memory where possible."""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import (
    Entity,
    Lane,
    Operation,
    Ref,
    Resource,
    Rollout,
    ScaleSet,
    Scope,
    SetAside,
    Subnet,
)
from fairwarning.service.read_share import STEP, ReadShare
from fairwarning.service.shared_visits import SharedVisits
from fairwarning.store.store import JournalEntry, MachineLocation, Store

log = logging.getLogger(__name__)

E = TypeVar("E", Scope, ScaleSet, Operation, Rollout, Lane, Resource, Subnet, SetAside)
T = TypeVar("T")

_ENTITIES = 8  # of a visit to the store: a scope may have 200 machines
_LOCATED_AT_ONCE = 64
_NUMBERS = 2000  # of lines that a visit searches


async def load_readable(
    load: Callable[[Sequence[Ref]], Awaitable[dict[Ref, Entity | None]]], refs: Sequence[Ref]
) -> dict[Ref, Entity | None]:
    """Load entities. One that cannot be read is logged and left out: it stops no other (IB1)."""
    if not refs:
        return {}
    try:
        return await load(refs)
    except FairwarningError:
        raise
    except Exception:
        if len(refs) == 1:
            ((kind, name),) = refs
            log.exception("%s %r cannot be read", kind.__name__, name)
            return {}
    half = len(refs) // 2
    return await load_readable(load, refs[:half]) | await load_readable(load, refs[half:])


class FleetReader:
    """Reads a fleet as committed. The `Committer` keeps the cache up to date.

    Long reads are many short visits to the store, so that other work goes on between them.
    """

    def __init__(self, store: Store, share: ReadShare, cached: int) -> None:
        self._store = store
        self._cached = cached
        self.share = share
        self.cache: OrderedDict[Ref, Entity] = OrderedDict()
        self._locations = SharedVisits(store.locate_machines, _LOCATED_AT_ONCE)

    async def read(self, kind: type[E], name: str) -> E | None:
        """An entity as committed."""
        ref = (kind, name)
        entity = self.cache.get(ref)
        if entity is None:
            entity = (await self._load([ref]))[ref]
        assert entity is None or isinstance(entity, kind)
        return entity

    async def read_all(self, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        """Several entities as committed."""
        found: dict[Ref, Entity | None] = {ref: self.cache.get(ref) for ref in refs}
        missing = [ref for ref, entity in found.items() if entity is None]
        for start in range(0, len(missing), _ENTITIES):
            found |= await self._load(missing[start : start + _ENTITIES])
        return found

    async def read_each(self, refs: Sequence[Ref]) -> dict[Ref, Entity | None]:
        """Several entities as committed; see `load_readable`."""
        return await load_readable(self.read_all, refs)

    async def _load(self, refs: list[Ref]) -> dict[Ref, Entity | None]:
        await self.share.turn()
        loaded = await self._store.load(refs)
        for ref, entity in loaded.items():
            if ref in self.cache:
                loaded[ref] = self.cache[ref]  # a commit in the meantime is newer
            elif entity is not None and len(self.cache) < self._cached:
                self.cache[ref] = entity  # a commit that changes it comes back after this load
        return loaded

    async def resources(self, prefix: str, after: str, limit: int) -> list[Resource]:
        """Resources whose ids begin so, in order, from the first past `after`."""
        while True:
            names = await self.list_ids(Resource, after, limit)
            refs: list[Ref] = [(Resource, name) for name in names if name.startswith(prefix)]
            read = (await self.read_all(refs)).values()
            page = [entity for entity in read if isinstance(entity, Resource)]
            if len(page) == len(refs):  # otherwise one was removed, and the page would be short
                return page

    async def find_machines(self, *, name: str = "", scope: str = "") -> list[MachineLocation]:
        """Machines of this name or scope."""
        await self.share.turn()
        return await self._store.find_machines(name=name, scope=scope)

    async def locate_machine(self, key: int | str) -> MachineLocation | None:
        """The machine with this number or address."""
        return await self._locations.read(key)

    async def list_machines(self, after: int, limit: int) -> list[MachineLocation]:
        """Machines in order of their numbers, from the first past `after`."""

        async def read(last: MachineLocation | None, size: int) -> list[MachineLocation]:
            return await self._store.list_machines(last.number if last else after, size)

        return await self._in_steps(read, limit)

    async def list_ids(self, kind: type[Entity], after: str, limit: int) -> list[str]:
        """Ids of entities of a kind, in order, from the first past `after`."""
        await self.share.turn()
        return await self._store.list_ids(kind, after, limit)

    async def scopes_with_events(self, after: str, limit: int) -> list[str]:
        """Ids of scopes that have events, in order, from the first past `after`."""
        await self.share.turn()
        return await self._store.scopes_with_events(after, limit)

    async def journal(
        self, *, after: int = 0, limit: int, entity: Ref | None = None, event: str = ""
    ) -> list[JournalEntry]:
        """Journal lines in order, from the first past `after`; of one entity or event if given."""

        async def read(last: JournalEntry | None, size: int) -> list[JournalEntry]:
            first = last.number if last else after
            return await self._store.journal(after=first, limit=size, entity=entity, event=event)

        return await self._in_steps(read, limit)

    async def operation_lines(
        self, operation: str, *, after: int, before: int, limit: int
    ) -> list[JournalEntry]:
        """Journal lines of an operation between two numbers, in order."""
        entries: list[JournalEntry] = []
        for first in range(after, before, _NUMBERS):
            await self.share.turn()
            last = min(first + _NUMBERS + 1, before)
            entries += await self._store.operation_lines(
                operation, after=first, before=last, limit=limit - len(entries)
            )
            if len(entries) == limit:
                break
        return entries

    async def latest_lines(
        self, limit: int, *, before: int | None = None, entity: Ref | None = None
    ) -> list[JournalEntry]:
        """The newest journal lines, the newest first; of one entity if given."""

        async def read(last: JournalEntry | None, size: int) -> list[JournalEntry]:
            upper = last.number if last else before
            return await self._store.latest_lines(size, before=upper, entity=entity)

        return await self._in_steps(read, limit)

    async def _in_steps(
        self, read: Callable[[T | None, int], Awaitable[list[T]]], limit: int
    ) -> list[T]:
        """Read up to `limit` items; `read` returns those after the last one."""
        items: list[T] = []
        while len(items) < limit:
            size = min(STEP, limit - len(items))
            await self.share.turn()
            page = await read(items[-1] if items else None, size)
            items += page
            if len(page) < size:
                break
        return items
