"""The pages of operations: what was requested, how far it is, and what it waits for."""

from contextlib import suppress

from fairwarning.console.api.filters import one_of
from fairwarning.console.api.responses import EventInfo, OperationInfo
from fairwarning.console.page.request import PageContent, PageRequest, Views
from fairwarning.core.errors import NotFound
from fairwarning.core.model import OperationStatus

_OPERATIONS = 20  # on a page
_EVENTS = 20  # shown for an operation
_STEPS = 30  # shown for an operation


async def index(request: PageRequest) -> PageContent:
    """Show a page of operations; `after` selects an older page."""
    status = one_of(OperationStatus, request.query, "status")
    page = await request.api.operations(request.query("after"), _OPERATIONS, status)
    data = {
        "operations": [(operation, _progress(operation)) for operation in page.operations],
        "next": page.next,
        "status": status or "",
        "statuses": list(OperationStatus),
        "cut": page.next is not None and len(page.operations) < _OPERATIONS,
    }
    return PageContent("operations.html", data)


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


VIEWS: Views = [("/operations", index), ("/operations/{id:path}", show)]
