"""What the pages of lists share: the filter in the query, and links that keep it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, urlencode

from fairwarning.console.page.request import PageRequest
from fairwarning.core.errors import Refused

SIZES = (20, 50, 100)
"""How many rows a page may have; the first is the default."""
_MAX_PAGES = 10**6
_TRAIL = 10  # pages that a list without page numbers leads back to
_FIRST = "0"  # in a trail, the page without a position
_NO_FILTERS = frozenset({"size", "page", "trail", "window"})

Row = TypeVar("Row")


@dataclass(frozen=True)
class ListQuery:
    """The query of a list page: its filter and its page number, from 1."""

    path: str
    values: Mapping[str, str]  # without empty ones
    number: int
    size: int

    def link(self, **changes: str | int) -> str:
        """Return a link to the same list with other values; an empty value leaves one out."""
        values = {**self.values, **changes}
        query = urlencode({name: value for name, value in values.items() if value})
        return f"{self.path}?{query}" if query else self.path

    @property
    def sizes(self) -> dict[int, str]:
        """Links to the list with more or fewer rows on a page."""
        return {size: self.link(size=size, page="") for size in SIZES}

    @property
    def is_filtered(self) -> bool:
        """Whether the list leaves anything out."""
        return bool(self.values.keys() - _NO_FILTERS)


@dataclass(frozen=True)
class ListPage:
    """A page of rows, and links to the pages before and after it."""

    total: int | None  # None: nobody has counted
    first: int  # the place of the first row, from 1
    last: int
    before: str
    after: str
    cut: bool = False  # the next page goes on with a search that found too little


def list_query(request: PageRequest, names: Sequence[str]) -> ListQuery:
    """Read the query of a list page; these are its filters."""
    names = (*names, "page", "size", "trail")
    values = {name: value for name in names if (value := request.query(name))}
    number = request.query_integer("page") or 1
    if number > _MAX_PAGES:
        raise Refused("BadQuery", f"page must be at most {_MAX_PAGES}")
    size = request.query_integer("size") or SIZES[0]
    if size not in SIZES:
        raise Refused("BadQuery", f"size must be one of {', '.join(map(str, SIZES))}")
    return ListQuery(quote(request.request.scope["path"]), values, number, size)


def cut_page(query: ListQuery, rows: Sequence[Row]) -> tuple[Sequence[Row], ListPage]:
    """Return the rows of the page that the query asks for."""
    begin = (query.number - 1) * query.size
    shown = rows[begin : begin + query.size]
    return shown, ListPage(
        total=len(rows),
        first=begin + 1 if shown else 0,
        last=begin + len(shown),
        before=query.link(page=query.number - 1) if query.number > 1 else "",
        after=query.link(page=query.number + 1) if begin + query.size < len(rows) else "",
    )


def journal_page(query: ListQuery, following: int | str | None, shown: int) -> ListPage:
    """Return a page of a list that ends at a line of the journal, the newest first.

    Its `before` is that line. The query has the positions of the pages before it in `trail`.
    """
    here = query.values.get("before", "")
    trail = query.values["trail"].split(",") if "trail" in query.values else []
    previous = trail[-1] if trail else _FIRST
    older = [*trail, here or _FIRST][-_TRAIL:]
    return ListPage(
        total=None,
        first=0,
        last=0,
        before=query.link(before="" if previous == _FIRST else previous, trail=",".join(trail[:-1]))
        if here
        else "",
        after="" if following is None else query.link(before=following, trail=",".join(older)),
        cut=following is not None and shown < query.size,
    )
