"""What a process has read lately, so that it need not be read again."""

from collections import OrderedDict
from weakref import ref as weak

from fairwarning.core.model import Entity, Ref


class EntityCache:
    """Entities by the position at which they were written: who has the position has the content.

    The last ones that were used are kept, and beyond them those that somebody else keeps, as a
    process does with the scopes that it shows.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._recent: OrderedDict[Ref, Entity] = OrderedDict()
        self._seen: dict[Ref, _Seen] = {}
        self._when_gone = self._gone  # one for all, as there may be many

    def get(self, ref: Ref) -> tuple[int, Entity] | None:
        """The entity, with its position."""
        seen = self._seen.get(ref)
        entity = seen() if seen else None
        return (seen.position, entity) if seen and entity is not None else None

    def keep(self, ref: Ref, position: int, entity: Entity) -> None:
        """It was written, or read; what is known may be later."""
        before = self._seen.get(ref)
        if before is None or before.position <= position:
            seen = self._seen[ref] = _Seen(entity, self._when_gone)
            seen.of, seen.position = before.of if before else ref, position
            self._recent[ref] = entity
        if ref in self._recent:
            self._recent.move_to_end(ref)
        if len(self._recent) > self._most:
            self._recent.popitem(last=False)

    def drop(self, ref: Ref) -> None:
        """It is no more, or may be another."""
        self._recent.pop(ref, None)
        self._seen.pop(ref, None)

    def clear(self) -> None:
        """Nothing is known."""
        self._recent.clear()
        self._seen.clear()

    def _gone(self, seen: "weak[Entity]") -> None:
        assert isinstance(seen, _Seen)
        if self._seen.get(seen.of) is seen:
            del self._seen[seen.of]


class _Seen(weak[Entity]):
    """Where an entity was written, for as long as somebody has it."""

    __slots__ = ("of", "position")
    of: Ref
    position: int
