"""Operations: what was requested, and how far it is; and the journal: all that happened."""

from contextlib import suppress
from dataclasses import replace
from urllib.parse import quote

from fairwarning.console.api.filters import JOURNAL_FILTERS, journal_filter, one_of
from fairwarning.console.api.responses import EventInfo, OperationInfo
from fairwarning.console.page import words
from fairwarning.console.page.listing import journal_page, list_query
from fairwarning.console.page.request import PageContent, PageRequest
from fairwarning.core.decision import FactType
from fairwarning.core.errors import NotFound
from fairwarning.core.model import OperationStatus, ScaleSet
from fairwarning.core.times import iso, parse_date
from fairwarning.service.listing.journal import LINES
from fairwarning.service.listing.operations import first_machines

_FILTERS = ("status", "machine", "set", "before")
_JOURNAL_FILTERS = ("scope", *JOURNAL_FILTERS, "before")
_PAGES = {"Operation": "/operations/", "Rollout": "/rollouts/", "ScaleSet": "/sets/"}
_NAMED = 3  # machines of an operation in the list
_EVENTS = 20  # shown for an operation
_STEPS = 30  # shown for an operation


async def index(request: PageRequest) -> PageContent:
    """Show a page of operations; `before` selects an older page."""
    query = list_query(request, _FILTERS)
    status = one_of(OperationStatus, request.query, "status")
    machine, set_ = request.query("machine"), request.query("set")
    operations = await request.api.operations(
        request.query("before"), query.size, status, machine=machine, set=set_
    )
    await request.api.index.refresh()
    rows = [
        (operation, _progress(operation), *await _on_what(request, operation))
        for operation in operations.operations
    ]
    data = {
        "rows": rows,
        "query": query,
        "page": journal_page(query, operations.next, len(rows)),
        "statuses": list(OperationStatus),
    }
    return PageContent("operations.html", data)


async def _on_what(request: PageRequest, operation: OperationInfo) -> tuple[str, str]:
    """Describe what an operation concerns, and return the page of it; empty if it has none."""
    accepted_at = parse_date(operation.accepted_at)
    machines = await first_machines(request.fleet, operation.id, accepted_at, _NAMED)
    scopes = {scope for scope, _ in machines} or {operation.target}
    index = request.api.index
    owners = {index.scopes[scope].owner if scope in index.scopes else "" for scope in scopes}
    owner = owners.pop() if len(owners) == 1 else ""
    names = words.join_names([name for _, name in machines])
    if len(machines) == 1 and operation.planned <= 1:
        ((scope, name),) = machines
        return name, f"/machines/{quote(scope)}/{quote(name)}"
    more = f" and {operation.planned - len(machines):,} more"
    text = names + (more if machines and operation.planned > len(machines) else "")
    if not owner and await request.fleet.reader.read(ScaleSet, operation.target):
        owner = operation.target
    return text or owner or operation.target, f"/sets/{quote(owner)}" if owner else ""


async def show(request: PageRequest) -> PageContent:
    """Show an operation with its explanation and its events."""
    operation = await request.api.operation(request.path_param("id"))
    explanation = await request.api.explain_operation(operation.id)
    data = {
        "operation": operation,
        "progress": _progress(operation),
        "explanation": explanation,
        "steps": explanation.steps[: -_STEPS - 1 : -1],
        "more_steps": max(len(explanation.steps) - _STEPS, 0),
        "events": await _events(request, explanation.events[:_EVENTS]),
        "more_events": max(len(explanation.events) - _EVENTS, 0),
    }
    return PageContent("operation.html", data)


async def _events(request: PageRequest, ids: list[str]) -> list[EventInfo]:
    """Return these events, without those that the journal no longer has."""
    events = []
    for event in ids:
        with suppress(NotFound):
            events.append(await request.api.event(event))
    return events


def _progress(operation: OperationInfo) -> str:
    """Describe how many impacts have ended, and how."""
    parts = [f"{operation.done} of {operation.planned} done"]
    parts += [f"{operation.failed} failed"] if operation.failed else []
    parts += [f"{operation.cancelled} cancelled"] if operation.cancelled else []
    return ", ".join(parts)


# --- The journal, the newest line first ---


async def journal(request: PageRequest) -> PageContent:
    """Show a page of lines; `before` selects an older page."""
    wanted = journal_filter(request.query)
    query = list_query(request, _JOURNAL_FILTERS)
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


VIEWS = (("/operations", index), ("/operations/{id:path}", show), ("/journal", journal))
