"""The lists as CSV files: all rows of a filter, read and sent in bounded pages."""

import csv
from asyncio import Lock
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from io import StringIO

from fairwarning.console.api.filters import (
    OVER,
    event_filter,
    journal_filter,
    machine_filter,
    one_of,
)
from fairwarning.console.api.responses import EventInfo
from fairwarning.console.page import event_bulk, events, machines, sets
from fairwarning.console.page.listing import list_query
from fairwarning.console.page.request import PageRequest
from fairwarning.core.model import OperationStatus
from fairwarning.service.listing.filters import EventFilter
from fairwarning.service.read_share import ReadShare

_ROWS = 50  # read at once
_FORMULA = tuple("=+-@\t\r")  # a spreadsheet takes what begins so for a formula

Row = Sequence[object]
CsvPages = AsyncIterator[list[Row]]
"""Pages of rows; the first has the names of the columns too."""


async def lines(
    share: ReadShare, downloading: Lock, first: list[Row], pages: CsvPages
) -> AsyncIterator[str]:
    """Return a file in parts. Between them it holds no place, however slow its reader is."""
    rows = first
    while rows:
        yield _text(rows)
        async with downloading, share.follow():
            await share.turn()
            rows = await anext(pages, [])


def _text(rows: Iterable[Row]) -> str:
    buffer = StringIO()
    csv.writer(buffer).writerows([[_cell(value) for value in row] for row in rows])
    return buffer.getvalue()


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


async def _machines(request: PageRequest) -> CsvPages:
    query = machines.query_of(request)
    locations = await machines.find(request, query, machine_filter(request.query))
    yield [("machine", "scope", "set", "power", "polled", "events")]
    for begin in range(0, len(locations), _ROWS):
        yield [
            (m.name, m.scope, m.set, m.power, m.polled, " ".join(event.id for event in m.events))
            for m in await request.api.describe_machines(locations[begin : begin + _ROWS])
        ]


async def _events(request: PageRequest) -> CsvPages:
    wanted = event_filter(request.query, request.fleet.clock.now())
    pages = _ended(request, wanted) if wanted.status == OVER else _live(request, wanted)
    names = "event", "type", "status", "machines", "scope", "not before", "approved by", "source"
    yield [(*names, "operation")]
    async for page in pages:
        yield [_event(event) for event in page]


def _event(event: EventInfo) -> Row:
    machines, of_event = " ".join(event.resources), (event.id, event.type, event.status)
    return (
        *of_event,
        machines,
        event.scope,
        event.not_before,
        event.approved_by,
        event.source,
        event.operation,
    )


async def _live(request: PageRequest, wanted: EventFilter) -> AsyncIterator[list[EventInfo]]:
    found = await request.api.find_events(wanted)
    ordered = events.sort(events.query_of(request), found)
    for begin in range(0, len(ordered), _ROWS):
        yield event_bulk.infos(ordered[begin : begin + _ROWS])


async def _ended(request: PageRequest, wanted: EventFilter) -> AsyncIterator[list[EventInfo]]:
    after: str | None = ""
    while after is not None:
        page = await request.api.events(after, _ROWS, wanted)
        after = page.next
        if page.events:
            yield page.events


async def _operations(request: PageRequest) -> CsvPages:
    status = one_of(OperationStatus, request.query, "status")
    place = {"machine": request.query("machine"), "set": request.query("set")}
    names = "operation", "kind", "target", "actor", "status", "accepted", "ended"
    yield [(*names, "planned", "done", "failed", "cancelled", "error")]
    after: str | None = ""
    while after is not None:
        page = await request.api.operations(after, _ROWS, status, **place)
        after = page.next
        rows: list[Row] = [
            (
                *(o.id, o.kind, o.target, o.actor, o.status, o.accepted_at, o.ended_at),
                *(o.planned, o.done, o.failed, o.cancelled, o.error),
            )
            for o in page.operations
        ]
        if rows:
            yield rows


async def _journal(request: PageRequest) -> CsvPages:
    wanted, scope = journal_filter(request.query), request.query("scope")
    yield [("number", "time", "action", "about", "machines", "event", "operation", "actor", "why")]
    before: int | None = None
    while True:
        page = await request.api.journal(
            limit=_ROWS, newest=True, before=before, scope=scope, wanted=wanted
        )
        if page.lines:
            yield [
                (
                    *(line.number, line.at, line.type, line.about, " ".join(line.machines)),
                    *(line.event, line.operation, line.actor, line.detail),
                )
                for line in page.lines
            ]
        if page.next is None:
            return
        before = page.next


async def _sets(request: PageRequest) -> CsvPages:
    yield [("set", "instances", "outdated", "termination notice", "priority", "upgrade")]
    list_query(request, ("q",))
    names = await sets.names(request)
    for begin in range(0, len(names), _ROWS):
        infos = await sets.describe(request, names[begin : begin + _ROWS])
        yield [
            (
                *(s.name, s.capacity + s.leaving, len(s.outdated)),
                *(s.terminate_notice, s.priority, s.upgrade),
            )
            for s in infos
        ]


FILES: dict[str, Callable[[PageRequest], CsvPages]] = {
    "/machines": _machines,
    "/sets": _sets,
    "/events": _events,
    "/operations": _operations,
    "/journal": _journal,
}
