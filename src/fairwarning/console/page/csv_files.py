"""The lists as CSV files: all rows of a filter, read and sent in bounded pages."""

import csv
from asyncio import Lock
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

from msgspec import Struct

from fairwarning.console.api.filters import (
    OVER,
    event_filter,
    journal_filter,
    one_of,
)
from fairwarning.console.page import event_bulk, machines, sets
from fairwarning.console.page.request import PageRequest
from fairwarning.core.model import OperationStatus
from fairwarning.service.read_share import ReadShare

_ROWS = 50  # read at once
_FORMULA = tuple("=+-@\t\r")  # a spreadsheet takes what begins so for a formula

Rows = Sequence[Struct]
Pages = AsyncIterator[Rows]


@dataclass(frozen=True)
class CsvFile:
    """A file: its columns, each with the member of a response that it shows, and its rows."""

    columns: Mapping[str, str]
    pages: Callable[[PageRequest], Pages]

    def text(self, rows: Rows, *, heading: bool = False) -> str:
        """Return a part of the file."""
        buffer = StringIO()
        writer = csv.writer(buffer)
        if heading:
            writer.writerow(self.columns)
        members = self.columns.values()
        writer.writerows([_cell(getattr(row, member)) for member in members] for row in rows)
        return buffer.getvalue()


async def parts(
    file: CsvFile, share: ReadShare, downloading: Lock, first: Rows, pages: Pages
) -> AsyncIterator[str]:
    """Return a file in parts. Between them it holds no place, however slow its reader is."""
    yield file.text(first, heading=True)
    rows: Rows | None = first
    while rows is not None:
        async with downloading, share.follow():
            await share.turn()
            rows = await anext(pages, None)
        if rows:
            yield file.text(rows)


def _cell(value: object) -> str:
    """Return a value as text; the names or ids of several things, with spaces."""
    if isinstance(value, list):
        value = " ".join(each if isinstance(each, str) else each.id for each in value)
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


async def _machines(request: PageRequest) -> Pages:
    locations = await machines.find(request)
    for begin in range(0, len(locations), _ROWS):
        yield await request.api.describe_machines(locations[begin : begin + _ROWS])


async def _events(request: PageRequest) -> Pages:
    wanted = event_filter(request.query, request.fleet.clock.now())
    if wanted.status != OVER:
        live = await request.api.find_events(wanted)
        for begin in range(0, len(live), _ROWS):
            yield event_bulk.infos(live[begin : begin + _ROWS])
        return
    after: str | None = ""
    while after is not None:
        page = await request.api.events(after, _ROWS, wanted)
        after = page.next
        yield page.events


async def _operations(request: PageRequest) -> Pages:
    status = one_of(OperationStatus, request.query, "status")
    place = {"machine": request.query("machine"), "set": request.query("set")}
    after: str | None = ""
    while after is not None:
        page = await request.api.operations(after, _ROWS, status, **place)
        after = page.next
        yield page.operations


async def _journal(request: PageRequest) -> Pages:
    wanted, scope = journal_filter(request.query), request.query("scope")
    page = await request.api.journal(limit=_ROWS, newest=True, scope=scope, wanted=wanted)
    yield page.lines
    while page.next is not None:
        page = await request.api.journal(
            limit=_ROWS, newest=True, before=page.next, scope=scope, wanted=wanted
        )
        yield page.lines


async def _sets(request: PageRequest) -> Pages:
    names = await sets.names(request)
    for begin in range(0, len(names), _ROWS):
        yield await sets.describe(request, names[begin : begin + _ROWS])


def _same(*names: str) -> dict[str, str]:
    """Return columns that are called as the members that they show."""
    return {name.replace("_", " "): name for name in names}


FILES = {
    "/machines": CsvFile(
        {"machine": "name", **_same("scope", "set", "power", "polled", "events")}, _machines
    ),
    "/sets": CsvFile(
        {
            "set": "name",
            "instances": "capacity",
            **_same("leaving", "outdated", "terminate_notice", "priority", "upgrade"),
        },
        _sets,
    ),
    "/events": CsvFile(
        {
            "event": "id",
            "machines": "resources",
            **_same("type", "status", "scope", "not_before", "approved_by", "source", "operation"),
        },
        _events,
    ),
    "/operations": CsvFile(
        {
            "operation": "id",
            **_same("kind", "target", "actor", "status", "accepted_at", "ended_at"),
            **_same("planned", "done", "failed", "cancelled", "error"),
        },
        _operations,
    ),
    "/journal": CsvFile(
        {
            "time": "at",
            "action": "type",
            "why": "detail",
            **_same("number", "about", "machines", "event", "operation", "actor"),
        },
        _journal,
    ),
}
