"""The journal, in pages."""

from fairwarning.console.api import responses, views
from fairwarning.console.api.part import PAGE_SIZE, ApiSection
from fairwarning.core.model import Ref, Scope


class JournalApi(ApiSection):
    """Reads of the journal."""

    async def journal(
        self, after: int = 0, limit: int = PAGE_SIZE, event: str = ""
    ) -> responses.JournalPage:
        """List journal lines, oldest first, optionally of one event."""
        entries = await self.fleet.reader.journal(after=after, limit=limit, event=event.upper())
        last = entries[-1].number if len(entries) == limit else None
        return responses.JournalPage(lines=[views.line_info(entry) for entry in entries], next=last)

    async def newest_lines(
        self, before: int | None = None, limit: int = PAGE_SIZE, scope: str = ""
    ) -> responses.JournalPage:
        """List journal lines, newest first, optionally of one scope."""
        entity: Ref | None = (Scope, scope) if scope else None
        entries = await self.fleet.reader.latest_lines(limit, before=before, entity=entity)
        last = entries[-1].number if len(entries) == limit else None
        return responses.JournalPage(lines=[views.line_info(entry) for entry in entries], next=last)
