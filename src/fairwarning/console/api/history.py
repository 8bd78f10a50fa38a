"""The journal, in pages."""

from fairwarning.console.api import responses, views
from fairwarning.console.api.section import PAGE_SIZE, ApiSection
from fairwarning.core.model import Ref, Scope
from fairwarning.service.listing.journal import EVERY_LINE, JournalFilter, newest_lines


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
        self,
        before: int | None = None,
        limit: int = PAGE_SIZE,
        scope: str = "",
        wanted: JournalFilter = EVERY_LINE,
    ) -> responses.JournalPage:
        """List journal lines, newest first, of one scope or those that a filter allows.

        A page may be short: a search reads a limited number of lines, and `next` continues it.
        """
        entity: Ref | None = (Scope, scope) if scope else None
        entries, last = await newest_lines(self.fleet, wanted, before, limit, entity)
        return responses.JournalPage(lines=[views.line_info(entry) for entry in entries], next=last)
