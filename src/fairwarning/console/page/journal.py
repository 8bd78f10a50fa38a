"""The page of the journal, newest line first, with filters."""

from urllib.parse import quote, urlencode

from fairwarning.console.api.filters import JOURNAL_FILTERS, journal_filter
from fairwarning.console.page.request import PageContent, PageRequest, Views
from fairwarning.core.decision import FactType
from fairwarning.core.times import iso
from fairwarning.service.listing.journal import LINES

_ENTRIES = 50  # on a page
_PAGES = {"Operation": "/operations/", "Rollout": "/rollouts/", "ScaleSet": "/sets/"}


async def show(request: PageRequest) -> PageContent:
    """Show a page of lines; `before` selects an older page."""
    wanted = journal_filter(request.query)
    page = await request.api.journal(
        limit=_ENTRIES,
        newest=True,
        before=request.query_integer("before"),
        scope=request.query("scope"),
        wanted=wanted,
    )
    given = {name: request.query(name) for name in ("scope", *JOURNAL_FILTERS)}
    data = {
        "lines": page.lines,
        "next": page.next,
        "wanted": wanted,
        "scope": given["scope"],
        "since": _field_value(wanted.since),
        "until": _field_value(wanted.until),
        "types": list(FactType),
        "query": urlencode({name: text for name, text in given.items() if text}),
        "cut": page.next is not None and len(page.lines) < _ENTRIES,
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
