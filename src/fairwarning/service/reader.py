"""Reads committed entities, machines and journal lines, from memory where possible."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeVar

from fairwarning.core.model import (
    Entity,
    Lane,
    Operation,
    Ref,
    Resource,
    Rollout,
    ScaleSet,
    Scope,
    Subnet,
)
from fairwarning.store.store import JournalEntry, MachineLocation, Store

E = TypeVar("E", Scope, ScaleSet, Operation, Rollout, Lane, Resource, Subnet)


class FleetReader:
    """Reads a fleet as committed. The `Committer` keeps the cache up to date."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.cache: OrderedDict[Ref, Entity] = OrderedDict()

    async def read(self, kind: type[E], name: str) -> E | None:
        """An entity as committed."""
        ref = (kind, name)
        entity = self.cache.get(ref)
        if entity is None:
            entity = (await self._store.load([ref]))[ref]
            entity = self.cache.get(ref, entity)  # a commit in the meantime is newer
        assert entity is None or isinstance(entity, kind)
        return entity

    async def read_all(self, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        """Several entities as committed."""
        found: dict[Ref, Entity | None] = {ref: self.cache.get(ref) for ref in refs}
        missing = [ref for ref, entity in found.items() if entity is None]
        for ref, entity in (await self._store.load(missing)).items() if missing else ():
            found[ref] = self.cache.get(ref, entity)
        return found

    async def resources(self, prefix: str, after: str, limit: int) -> list[Resource]:
        """Resources whose ids begin so, in order, from the first past `after`."""
        while True:
            names = await self._store.list_ids(Resource, after, limit)
            refs: list[Ref] = [(Resource, name) for name in names if name.startswith(prefix)]
            read = (await self.read_all(refs)).values()
            page = [entity for entity in read if isinstance(entity, Resource)]
            if len(page) == len(refs):  # otherwise one was removed, and the page would be short
                return page

    async def find_machines(
        self, *, name: str = "", address: str = "", number: int = 0, scope: str = ""
    ) -> list[MachineLocation]:
        """Machines of this name, address, number or scope."""
        return await self._store.find_machines(
            name=name, address=address, number=number, scope=scope
        )

    async def list_machines(self, after: int, limit: int) -> list[MachineLocation]:
        """Machines in order of their numbers, from the first past `after`."""
        return await self._store.list_machines(after, limit)

    async def list_ids(self, kind: type[Entity], after: str, limit: int) -> list[str]:
        """Ids of entities of a kind, in order, from the first past `after`."""
        return await self._store.list_ids(kind, after, limit)

    async def journal(self, *, after: int, limit: int, event: str = "") -> list[JournalEntry]:
        """Journal lines in order, from the first past `after`; of one event if given."""
        return await self._store.journal(after=after, limit=limit, event=event)

    async def latest_lines(
        self, limit: int, *, before: int | None = None, entity: Ref | None = None
    ) -> list[JournalEntry]:
        """The newest journal lines, the newest first; of one entity if given."""
        return await self._store.latest_lines(limit, before=before, entity=entity)
