"""The journal, in pages."""

from fairwarning.console.api import responses, views
from fairwarning.console.api.endpoints import NEXT_PAGE, endpoint
from fairwarning.console.api.filters import JOURNAL_FILTERS
from fairwarning.console.api.section import PAGE_SIZE, ApiSection
from fairwarning.core.errors import Refused
from fairwarning.core.model import Ref, Scope
from fairwarning.service.listing.journal import EVERY_LINE, JournalFilter, newest_lines

_QUERY = {
    **NEXT_PAGE,
    "event": "Only of this event.",
    "newest": "`true`: newest first.",
    "before": "With `newest`: `next` of the previous page.",
    "scope": "With `newest`: only of this scope.",
    **{
        name: f"With `newest`: {text[0].lower()}{text[1:]}"
        for name, text in JOURNAL_FILTERS.items()
    },
}


class JournalApi(ApiSection):
    """Reads of the journal."""

    @endpoint("GET", "/api/journal", query=_QUERY)
    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = PAGE_SIZE,
        event: str = "",
        newest: bool = False,
        before: int | None = None,
        scope: str = "",
        wanted: JournalFilter = EVERY_LINE,
    ) -> responses.JournalPage:
        """List journal lines: who did what, when and why.

        Oldest first, optionally of one event; or newest first, of one scope or those that a filter
        allows. Then a page may be short: a search reads a limited number of lines, and `next`
        continues it.
        """
        if newest:
            entity: Ref | None = (Scope, scope) if scope else None
            entries, last = await newest_lines(self.fleet, wanted, before, limit, entity)
        elif scope or wanted != EVERY_LINE:
            filters = ", ".join(["scope", *JOURNAL_FILTERS])
            raise Refused("BadQuery", f"a filter ({filters}) needs newest=true")
        else:
            entries = await self.fleet.reader.journal(after=after, limit=limit, event=event.upper())
            last = entries[-1].number if len(entries) == limit else None
        lines = await self.fleet.reader.share.map(views.line_info, entries)
        return responses.JournalPage(lines=lines, next=last)
