"""The journal, the newest line first."""

from fairwarning.console.page.visit import Shown, Views, Visit

_LINES = 100


async def show(visit: Visit) -> Shown:
    """A page of lines; `before` turns to older ones."""
    page = await visit.api.newest(visit.whole("before"), _LINES)
    return Shown("journal.html", {"lines": page.lines, "next": page.next})


VIEWS: Views = [("/journal", show)]
