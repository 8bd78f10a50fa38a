"""The journal, the newest line first."""

from fairwarning.console.page.request import PageContent, PageRequest, Views

_LINES = 100


async def show(visit: PageRequest) -> PageContent:
    """A page of lines; `before` turns to older ones."""
    page = await visit.api.newest_lines(visit.whole("before"), _LINES)
    return PageContent("journal.html", {"lines": page.lines, "next": page.next})


VIEWS: Views = [("/journal", show)]
