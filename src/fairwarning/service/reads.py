"""What can be read of a fleet, as committed. Nothing here changes anything."""

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
)
from fairwarning.store.store import Entry, Place, Store

E = TypeVar("E", Scope, ScaleSet, Operation, Rollout, Lane, Resource)


class Reads:
    """A store, and what was lately read from it; whoever commits keeps that up to date."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._cache: OrderedDict[Ref, Entity] = OrderedDict()

    async def read(self, kind: type[E], name: str) -> E | None:
        """An entity as committed."""
        ref = (kind, name)
        entity = self._cache.get(ref)
        if entity is None:
            entity = (await self.store.load([ref]))[ref]
            entity = self._cache.get(ref, entity)  # a commit in the meantime is newer
        assert entity is None or isinstance(entity, kind)
        return entity

    async def read_all(self, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        """Several entities as committed."""
        found: dict[Ref, Entity | None] = {ref: self._cache.get(ref) for ref in refs}
        missing = [ref for ref, entity in found.items() if entity is None]
        for ref, entity in (await self.store.load(missing)).items() if missing else ():
            found[ref] = self._cache.get(ref, entity)
        return found

    async def resources(self, prefix: str, after: str, limit: int) -> list[Resource]:
        """Resources whose ids begin so, in order, from the first past `after`."""
        while True:
            names = await self.store.names(Resource, after, limit)
            refs: list[Ref] = [(Resource, name) for name in names if name.startswith(prefix)]
            read = (await self.read_all(refs)).values()
            found = [one for one in read if isinstance(one, Resource)]
            if len(found) == len(refs):  # else one went meanwhile, and the page would be short
                return found

    async def find(
        self, *, name: str = "", address: str = "", number: int = 0, scope: str = ""
    ) -> list[Place]:
        """Machines of this name, address, number or scope."""
        return await self.store.find(name=name, address=address, number=number, scope=scope)

    async def places(self, after: int, limit: int) -> list[Place]:
        """Machines in order of their numbers, from the first past `after`."""
        return await self.store.places(after, limit)

    async def names(self, kind: type[Entity], after: str, limit: int) -> list[str]:
        """Ids of entities of a kind, in order, from the first past `after`."""
        return await self.store.names(kind, after, limit)

    async def journal(self, *, after: int, limit: int, event: str = "") -> list[Entry]:
        """Journal lines in order, from the first past `after`; of one event if given."""
        return await self.store.journal(after=after, limit=limit, event=event)

    async def latest(
        self, limit: int, *, before: int | None = None, entity: Ref | None = None
    ) -> list[Entry]:
        """The newest journal lines, the newest first; of one entity if given."""
        return await self.store.latest(limit, before=before, entity=entity)
