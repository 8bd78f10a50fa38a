"""An event: its story, and the two things that can be done about it."""

from fairwarning.console.api.responses import EventInfo
from fairwarning.console.page.forms import FormDone
from fairwarning.console.page.preview import OperationPreview, PreviewText, preview
from fairwarning.console.page.request import Deeds, PageContent, PageRequest, Views
from fairwarning.core.commands import Approve

_OFF = "It will not happen. The operation it belongs to counts it as cancelled."


async def show(visit: PageRequest) -> PageContent:
    """Who was told, who approved, what is awaited, how long each step took (O7)."""
    event = await visit.api.event(visit.named("id"))
    story = await visit.api.explain_event(event.id)
    data = {"event": event, "story": story, "deeds": await _choices(visit, event)}
    return PageContent("event.html", data)


async def _choices(visit: PageRequest, event: EventInfo) -> list[OperationPreview]:
    if event.status != "Scheduled" or not visit.may:
        return []
    fleet = visit.fleet
    approved = await preview(fleet, Approve(scope=event.scope, events=(event.id,)))
    if event.approved_by:
        approved = PreviewText("It is approved already, and waits for others.", refused=True)
    elif not approved.text:
        approved = PreviewText("It is approved, and waits for the others that must be as well.")
    return [
        OperationPreview("approve", "Approve", approved, "main"),
        OperationPreview("cancel", "Cancel", PreviewText(_OFF), "grave"),
    ]


async def approve(visit: PageRequest) -> FormDone:
    """Let it start now."""
    event = await visit.api.approve(visit.named("id"), visit.actor)
    return FormDone("Approved.", f"/events/{event.id}")


async def cancel(visit: PageRequest) -> FormDone:
    """It will not happen after all."""
    event = await visit.api.cancel(visit.named("id"), visit.actor)
    return FormDone("Cancelled: it will not happen.", f"/events/{event.id}")


VIEWS: Views = [("/events/{id}", show)]
DEEDS: Deeds = [
    ("/events/{id}/approve", approve, show),
    ("/events/{id}/cancel", cancel, show),
]
