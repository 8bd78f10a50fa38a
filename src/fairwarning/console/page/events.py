"""The page of an event: its explanation, and buttons to approve or cancel it."""

from fairwarning.console.api.responses import EventInfo
from fairwarning.console.page.form_data import FormDone
from fairwarning.console.page.preview import OperationPreview, preview
from fairwarning.console.page.request import FormRoutes, PageContent, PageRequest, Views
from fairwarning.core.commands import Approve

_APPROVE_TEXT = "Approves the event. It starts once all other approvals are in."
_CANCEL_TEXT = "Cancels the event without impact. Its operation counts it as cancelled."


async def show(request: PageRequest) -> PageContent:
    """Show deliveries, approvals, what the event waits for, and how long each step took (O7)."""
    event = await request.api.event(request.path_param("id"))
    explanation = await request.api.explain_event(event.id)
    data = {
        "event": event,
        "explanation": explanation,
        "actions": await _actions(request, event),
    }
    return PageContent("event.html", data)


async def _actions(request: PageRequest, event: EventInfo) -> list[OperationPreview]:
    if event.status != "Scheduled" or not request.can_edit:
        return []
    cancel = OperationPreview("cancel", "Cancel", _CANCEL_TEXT, "danger")
    if event.approved_by:
        return [cancel]
    effect = await preview(request.fleet, Approve(scope=event.scope, events=(event.id,)))
    return [OperationPreview("approve", "Approve", effect or _APPROVE_TEXT, "primary"), cancel]


async def approve(request: PageRequest) -> FormDone:
    """Approve the event."""
    event = await request.api.approve(request.path_param("id"), request.actor)
    return FormDone("Event approved.", f"/events/{event.id}")


async def cancel(request: PageRequest) -> FormDone:
    """Cancel the event."""
    event = await request.api.cancel(request.path_param("id"), request.actor)
    return FormDone("Event cancelled.", f"/events/{event.id}")


VIEWS: Views = [("/events/{id}", show)]
FORMS: FormRoutes = [
    ("/events/{id}/approve", approve, show),
    ("/events/{id}/cancel", cancel, show),
]
