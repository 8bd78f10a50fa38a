"""An event: its story, and the two things that can be done about it."""

from fairwarning.console.api.shapes import Event
from fairwarning.console.page.foresight import Choice, Foreseen, foresee
from fairwarning.console.page.forms import Done
from fairwarning.console.page.visit import Deeds, Shown, Views, Visit
from fairwarning.core.commands import Approve

_OFF = "It will not happen. The operation it belongs to counts it as cancelled."


async def show(visit: Visit) -> Shown:
    """Who was told, who approved, what is awaited, how long each step took (O7)."""
    event = await visit.api.event(visit.named("id"))
    story = await visit.api.explain_event(event.id)
    data = {"event": event, "story": story, "deeds": await _choices(visit, event)}
    return Shown("event.html", data)


async def _choices(visit: Visit, event: Event) -> list[Choice]:
    if event.status != "Scheduled" or not visit.may:
        return []
    fleet = visit.fleet
    approved = await foresee(fleet, Approve(scope=event.scope, events=(event.id,)))
    if event.approved_by:
        approved = Foreseen("It is approved already, and waits for others.", refused=True)
    elif not approved.text:
        approved = Foreseen("It is approved, and waits for the others that must be as well.")
    return [
        Choice("approve", "Approve", approved, "main"),
        Choice("cancel", "Cancel", Foreseen(_OFF), "grave"),
    ]


async def approve(visit: Visit) -> Done:
    """Let it start now."""
    event = await visit.api.approve(visit.named("id"), visit.actor)
    return Done("Approved.", f"/events/{event.id}")


async def cancel(visit: Visit) -> Done:
    """It will not happen after all."""
    event = await visit.api.cancel(visit.named("id"), visit.actor)
    return Done("Cancelled: it will not happen.", f"/events/{event.id}")


VIEWS: Views = [("/events/{id}", show)]
DEEDS: Deeds = [
    ("/events/{id}/approve", approve, show),
    ("/events/{id}/cancel", cancel, show),
]
