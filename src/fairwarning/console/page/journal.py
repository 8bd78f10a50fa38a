"""The page of the journal, newest line first, with filters."""

from dataclasses import replace
from urllib.parse import quote

from fairwarning.console.api.filters import JOURNAL_FILTERS, journal_filter
from fairwarning.console.page.listing import journal_page, list_query
from fairwarning.console.page.request import PageContent, PageRequest, Views
from fairwarning.core.decision import FactType
from fairwarning.core.times import iso
from fairwarning.service.listing.journal import LINES

FILTERS = ("scope", *JOURNAL_FILTERS, "before")
_PAGES = {"Operation": "/operations/", "Rollout": "/rollouts/", "ScaleSet": "/sets/"}


async def show(request: PageRequest) -> PageContent:
    """Show a page of lines; `before` selects an older page."""
    wanted = journal_filter(request.query)
    query = list_query(request, FILTERS)
    times = {"since": _field_value(wanted.since), "until": _field_value(wanted.until)}
    entries = await request.api.journal(
        limit=query.size,
        newest=True,
        before=request.query_integer("before"),
        scope=request.query("scope"),
        wanted=wanted,
    )
    data = {
        "lines": entries.lines,
        "query": replace(query, values={**query.values, **{k: v for k, v in times.items() if v}}),
        "page": journal_page(query, entries.next, len(entries.lines)),
        "types": list(FactType),
        "searched": f"{LINES:,}",
        "link_of": _link,
    }
    return PageContent("journal.html", data)


def _field_value(moment: float | None) -> str:
    """Return a time as a `datetime-local` field has it, which has no time zone."""
    return "" if moment is None else iso(int(moment)).removesuffix("Z")


def _link(about: str) -> str:
    """Return the page of what a line is about; empty if it has none."""
    kind, _, name = about.partition(" ")
    return f"{_PAGES[kind]}{quote(name)}" if kind in _PAGES else ""


VIEWS: Views = [("/journal", show)]
