"""What is read alike from SQLite and from PostgreSQL: by statements of the same names."""

from abc import ABC, abstractmethod
from typing import Any, cast

from fairwarning.core.cascade import JournalLine
from fairwarning.core.model import KINDS, Entity, Ref
from fairwarning.store import codec
from fairwarning.store.store import (
    LAST_CHARACTER,
    JournalEntry,
    MachineLocation,
    ScopeChange,
)

Row = tuple[Any, ...]

_LAST_NUMBER = 2**63 - 1


class SqlReads(ABC):
    """The queries of the `Store` protocol that need nothing but rows."""

    @abstractmethod
    async def _rows(self, query: str, **values: object) -> list[Row]:
        """Execute a statement of `queries.sql`, and return its rows."""

    @staticmethod
    def _entry(
        number: int, at: float, actor: str, kind: str, name: str, *fact: str
    ) -> JournalEntry:
        return JournalEntry(number, JournalLine(at, actor, (KINDS[kind], name), codec.fact(*fact)))

    async def next_due(self) -> float | None:
        return cast("float | None", (await self._rows("next_due"))[0][0])

    async def find_machines(self, *, name: str = "", scope: str = "") -> list[MachineLocation]:
        if name:
            return await self._machines("machines_by_name", name=name)
        return await self._machines("machines_by_scope", scope=scope)

    async def list_machines(self, after: int, limit: int) -> list[MachineLocation]:
        return await self._machines("list_machines", after=after, limit=limit)

    async def _machines(self, query: str, **values: object) -> list[MachineLocation]:
        return [self._location(*row) for row in await self._rows(query, **values)]

    @staticmethod
    def _location(number: int, scope: str, body: str) -> MachineLocation:
        return MachineLocation(number, scope, codec.decode_machine(body))

    async def list_ids(self, kind: type[Entity], after: str, limit: int) -> list[str]:
        rows = await self._rows("list_ids", kind=kind.__name__, after=after, limit=limit)
        return [name for (name,) in rows]

    async def scopes_with_events(self, after: str, limit: int) -> list[str]:
        rows = await self._rows("scopes_with_events", after=after, limit=limit)
        return [name for (name,) in rows]

    async def changes_since(self, after: int, limit: int) -> list[ScopeChange]:
        rows = await self._rows("changes_since", after=after, limit=limit)
        return [ScopeChange(position, scope) for position, scope in rows]

    async def position(self) -> int:
        return int((await self._rows("position"))[0][0])

    async def journal(
        self, *, after: int = 0, limit: int = 1000, entity: Ref | None = None, event: str = ""
    ) -> list[JournalEntry]:
        page: dict[str, object] = {"after": max(after, 0), "limit": limit, "event": event}
        if entity is not None:
            kind, name = entity
            return await self._lines("lines_of_entity", kind=kind.__name__, id=name, **page)
        return await self._lines("lines_of_event" if event else "lines", **page)

    async def operation_lines(
        self, operation: str, *, after: int, before: int, limit: int
    ) -> list[JournalEntry]:
        return await self._lines(
            "lines_of_operation", operation=operation, after=after, before=before, limit=limit
        )

    async def latest_lines(
        self, limit: int, *, before: int | None = None, entity: Ref | None = None
    ) -> list[JournalEntry]:
        page = {"before": _LAST_NUMBER if before is None else before, "limit": limit}
        if entity is None:
            return await self._lines("latest", **page)
        kind, name = entity
        return await self._lines("latest_of_entity", kind=kind.__name__, id=name, **page)

    async def _lines(self, query: str, **values: object) -> list[JournalEntry]:
        return [self._entry(*row) for row in await self._rows(query, **values)]

    async def get_note(self, name: str) -> str | None:
        rows = await self._rows("get_note", name=name)
        return str(rows[0][0]) if rows else None

    async def list_notes(self, prefix: str, after: str, limit: int) -> dict[str, str]:
        first, until = max(prefix, after), prefix + LAST_CHARACTER
        return dict(await self._rows("list_notes", after=first, until=until, limit=limit))

    async def ended_entities(self, before: float, limit: int) -> list[Ref]:
        rows = await self._rows("ended_entities", before=before, limit=limit)
        return [(KINDS[kind], name) for kind, name in rows]
