"""A cache of the entities that a process has read or written recently."""

from collections import OrderedDict
from weakref import ref as weak

from fairwarning.core.model import Entity, Ref


class EntityCache:
    """Entities with the position at which they were written; equal positions mean equal content.

    It holds the most recently used entities, and weak references to those that other code still
    holds, such as the scopes whose documents a process serves.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._recent: OrderedDict[Ref, Entity] = OrderedDict()
        self._entries: dict[Ref, _CacheEntry] = {}
        self._callback = self._remove  # one bound method for all entries, to save memory

    def get(self, ref: Ref) -> tuple[int, Entity] | None:
        """Return the entity with its position."""
        entry = self._entries.get(ref)
        entity = entry() if entry else None
        return (entry.position, entity) if entry and entity is not None else None

    def put(self, ref: Ref, position: int, entity: Entity) -> None:
        """Add an entity that was read or written, unless the cached one is newer."""
        before = self._entries.get(ref)
        if before is None or before.position <= position:
            entry = self._entries[ref] = _CacheEntry(entity, self._callback)
            entry.ref, entry.position = before.ref if before else ref, position
            self._recent[ref] = entity
        if ref in self._recent:
            self._recent.move_to_end(ref)
        if len(self._recent) > self._capacity:
            self._recent.popitem(last=False)

    def drop(self, ref: Ref) -> None:
        """Remove an entity that was deleted or may have changed."""
        self._recent.pop(ref, None)
        self._entries.pop(ref, None)

    def clear(self) -> None:
        """Remove all entities."""
        self._recent.clear()
        self._entries.clear()

    def _remove(self, entry: "weak[Entity]") -> None:
        assert isinstance(entry, _CacheEntry)
        if self._entries.get(entry.ref) is entry:
            del self._entries[entry.ref]


class _CacheEntry(weak[Entity]):
    """A weak reference to an entity, with the position at which it was written."""

    __slots__ = ("position", "ref")
    ref: Ref
    position: int
