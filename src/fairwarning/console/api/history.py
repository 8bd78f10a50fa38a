"""The journal, a page at a time."""

from fairwarning.console.api import responses, views
from fairwarning.console.api.part import PAGE, ApiSection
from fairwarning.core.model import Ref, Scope


class JournalApi(ApiSection):
    """Who did what, when and why."""

    async def journal(
        self, after: int = 0, limit: int = PAGE, event: str = ""
    ) -> responses.JournalPage:
        """Lines in order; of one event, if given."""
        entries = await self.fleet.reader.journal(after=after, limit=limit, event=event.upper())
        last = entries[-1].number if len(entries) == limit else None
        return responses.JournalPage(lines=[views.line(entry) for entry in entries], next=last)

    async def newest(
        self, before: int | None = None, limit: int = PAGE, scope: str = ""
    ) -> responses.JournalPage:
        """Lines, the newest first; of one scope, if given."""
        entity: Ref | None = (Scope, scope) if scope else None
        entries = await self.fleet.reader.latest_lines(limit, before=before, entity=entity)
        last = entries[-1].number if len(entries) == limit else None
        return responses.JournalPage(lines=[views.line(entry) for entry in entries], next=last)
