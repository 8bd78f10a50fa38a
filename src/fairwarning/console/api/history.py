"""The journal, a page at a time."""

from fairwarning.console.api import shapes, views
from fairwarning.console.api.part import PAGE, Part
from fairwarning.core.model import Ref, Scope


class History(Part):
    """Who did what, when and why."""

    async def journal(self, after: int = 0, limit: int = PAGE, event: str = "") -> shapes.Lines:
        """Lines in order; of one event, if given."""
        entries = await self.fleet.journal(after=after, limit=limit, event=event.upper())
        last = entries[-1].number if len(entries) == limit else None
        return shapes.Lines(lines=[views.line(entry) for entry in entries], next=last)

    async def newest(
        self, before: int | None = None, limit: int = PAGE, scope: str = ""
    ) -> shapes.Lines:
        """Lines, the newest first; of one scope, if given."""
        entity: Ref | None = (Scope, scope) if scope else None
        entries = await self.fleet.latest(limit, before=before, entity=entity)
        last = entries[-1].number if len(entries) == limit else None
        return shapes.Lines(lines=[views.line(entry) for entry in entries], next=last)
