"""What the pages of lists share: the filter in the query, sorting, and links that keep it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

from fairwarning.console.page.request import PageRequest
from fairwarning.core.errors import Refused

PAGE = 20  # rows on a page
_MAX_PAGES = 10**6

Row = TypeVar("Row")


@dataclass(frozen=True)
class ListQuery:
    """The query of a list page: its filter, its order and its page number, from 1."""

    path: str
    values: Mapping[str, str]  # without empty ones
    sort: str
    number: int

    def link(self, **changes: str | int) -> str:
        """Return a link to the same list with other values; an empty value leaves one out."""
        values = {**self.values, **{name: str(value) for name, value in changes.items()}}
        query = urlencode({name: value for name, value in values.items() if value})
        return f"{self.path}?{query}" if query else self.path

    def sort_link(self, column: str) -> str:
        """Return a link that sorts by a column; a second time, in the other direction."""
        return self.link(sort=f"-{column}" if self.sort == column else column, page="")

    def direction(self, column: str) -> str:
        """Return how the list is sorted by this column, as `aria-sort` spells it; or nothing."""
        if self.sort.removeprefix("-") != column:
            return ""
        return "descending" if self.sort.startswith("-") else "ascending"


@dataclass(frozen=True)
class ListPage:
    """A page of rows, and links to the pages before and after it."""

    total: int
    first: int  # the place of the first row, from 1
    last: int
    before: str
    after: str


def list_query(request: PageRequest, names: Sequence[str], sorts: Sequence[str]) -> ListQuery:
    """Read the query of a list page; these are its filters and its columns to sort by."""
    values = {name: value for name in (*names, "sort", "page") if (value := request.query(name))}
    sort = values.get("sort", sorts[0])
    if sort.removeprefix("-") not in sorts:
        raise Refused("BadQuery", f"sort must be one of {', '.join(sorts)}, not {sort[:40]!r}")
    number = request.query_integer("page") or 1
    if number > _MAX_PAGES:
        raise Refused("BadQuery", f"page must be at most {_MAX_PAGES}")
    path = str(request.request.scope["path"])
    return ListQuery(path, values, sort, number)


def cut_page(query: ListQuery, rows: Sequence[Row]) -> tuple[Sequence[Row], ListPage]:
    """Return the rows of the page that the query asks for."""
    begin = (query.number - 1) * PAGE
    shown = rows[begin : begin + PAGE]
    return shown, ListPage(
        total=len(rows),
        first=begin + 1 if shown else 0,
        last=begin + len(shown),
        before=query.link(page=query.number - 1) if query.number > 1 else "",
        after=query.link(page=query.number + 1) if begin + PAGE < len(rows) else "",
    )
