"""The page of the journal, newest line first."""

from fairwarning.console.page.request import PageContent, PageRequest, Views

_LINES = 100  # on a page


async def show(request: PageRequest) -> PageContent:
    """Show a page of lines; `before` selects an older page."""
    page = await request.api.newest_lines(request.query_integer("before"), _LINES)
    return PageContent("journal.html", {"lines": page.lines, "next": page.next})


VIEWS: Views = [("/journal", show)]
