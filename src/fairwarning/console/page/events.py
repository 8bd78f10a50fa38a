"""The pages of events: a list with filters and groups (O14); and each with its explanation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fairwarning.console.api.filters import EVENT_FILTERS, OVER, event_filter
from fairwarning.console.api.responses import EventInfo
from fairwarning.console.page import activity, event_bulk, words
from fairwarning.console.page.event_bulk import ScopedEvent
from fairwarning.console.page.form_data import FormDone
from fairwarning.console.page.listing import ListQuery, cut_page, journal_page, list_query
from fairwarning.console.page.preview import OperationPreview, preview
from fairwarning.console.page.request import FormRoutes, PageContent, PageRequest, Views
from fairwarning.core.commands import Approve
from fairwarning.core.errors import Refused
from fairwarning.core.model import Event, EventStatus, EventType, Scope, Source
from fairwarning.core.rollout import rollout_of_step
from fairwarning.service.listing.filters import EventFilter

_GROUPS_SHOWN = 20
_IN_GROUP = 8  # rows shown of a group
_ROWS = 8  # of the timeline
_APPROVE_TEXT = "Approves the event. It starts once all other approvals are in."
_CANCEL_TEXT = "Cancels the event without impact. Its operation counts it as cancelled."

_GROUPS: dict[str, Callable[[Scope, Event], str]] = {
    "rollout": lambda _, event: rollout_of_step(event.operation),
    "set": lambda scope, _: scope.owner,
    "type": lambda _, event: event.type.value,
}
_NO_GROUP = {"rollout": "Without a rollout", "set": "Without a scale set", "type": ""}


@dataclass(frozen=True)
class EventGroup:
    """Events of one rollout, scale set or type: the first of them, and a link to all."""

    title: str
    count: int
    events: list[EventInfo]
    link: str


async def index(request: PageRequest) -> PageContent:
    """Show the events that the filter allows: a table, groups of it, or ended ones."""
    query = list_query(request, (*EVENT_FILTERS, "group", "before", "window"))
    wanted = event_filter(request.query, request.fleet.clock.now())
    data: dict[str, Any] = {
        "query": query,
        "types": list(EventType),
        "statuses": [*EventStatus, OVER],
        "sources": list(Source),
        "group_names": list(_GROUPS),
        "bulk": [],
        "groups": None,
        "page": None,
        "more": 0,
    }
    data |= await activity.recent_timeline(request, wanted, _ROWS)
    if wanted.status == OVER:
        return PageContent("events.html", data | await _ended(request, query, wanted))
    scoped_events = await request.api.find_events(wanted)
    data["bulk"] = _bulk(query, scoped_events) if request.can_edit else []
    if group := request.query("group"):
        if group not in _GROUPS:
            raise Refused("BadQuery", f"group must be one of {', '.join(_GROUPS)}")
        groups = _grouped(query, group, scoped_events)
        shown_groups = {"groups": groups[:_GROUPS_SHOWN], "more": len(groups) - _GROUPS_SHOWN}
        return PageContent("events.html", data | shown_groups)
    shown, page = cut_page(query, scoped_events)
    return PageContent("events.html", data | {"events": event_bulk.infos(shown), "page": page})


async def _ended(request: PageRequest, query: ListQuery, wanted: EventFilter) -> dict[str, Any]:
    ended = await request.api.events(request.query("before"), query.size, wanted)
    return {"events": ended.events, "page": journal_page(query, ended.next, len(ended.events))}


def _grouped(query: ListQuery, group: str, scoped_events: list[ScopedEvent]) -> list[EventGroup]:
    """Return the groups, those with most events first."""
    members: dict[str, list[ScopedEvent]] = {}
    for each in scoped_events:
        members.setdefault(_GROUPS[group](*each), []).append(each)
    return [
        EventGroup(
            title=name or _NO_GROUP[group],
            count=len(events),
            events=event_bulk.infos(events[:_IN_GROUP]),
            link=query.link(**{group: name, "group": ""}) if name else "",
        )
        for name, events in sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def _bulk(query: ListQuery, scoped_events: list[ScopedEvent]) -> list[dict[str, str]]:
    """Return the buttons that act on all events of the filter that they suit."""
    shown = {name: value for name, value in query.values.items() if name in EVENT_FILTERS}
    return [
        {
            "label": f"{label} {words.count(count, 'event')}…",
            "link": f"/events/confirm?{urlencode({**shown, 'action': action})}",
        }
        for action, label in event_bulk.ACTIONS.items()
        if (count := sum(event_bulk.suits(action, event) for _, event in scoped_events))
    ]


# --- One event ---


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
    try:
        effect = await preview(request.fleet, Approve(scope=event.scope, events=(event.id,)))
    except Refused:
        return []  # it has ended meanwhile
    return [OperationPreview("approve", "Approve", effect or _APPROVE_TEXT, "primary"), cancel]


async def approve(request: PageRequest) -> FormDone:
    """Approve the event."""
    event = await request.api.approve(request.path_param("id"), request.actor)
    return FormDone("Event approved.", f"/events/{event.id}")


async def cancel(request: PageRequest) -> FormDone:
    """Cancel the event."""
    event = await request.api.cancel(request.path_param("id"), request.actor)
    return FormDone("Event cancelled.", f"/events/{event.id}")


VIEWS: Views = [("/events", index), ("/events/{id}", show)]
FORMS: FormRoutes = [
    ("/events/{id}/approve", approve, show),
    ("/events/{id}/cancel", cancel, show),
]
