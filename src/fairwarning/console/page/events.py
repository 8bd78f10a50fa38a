"""Events: a list with filters and groups, actions on all of it (O14); and one event."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fairwarning.console.api import views
from fairwarning.console.api.events import place
from fairwarning.console.api.filters import EVENT_FILTERS, OVER, event_filter
from fairwarning.console.api.responses import EventInfo
from fairwarning.console.page import activity, words
from fairwarning.console.page.confirm import TYPED_ABOVE, check_typed
from fairwarning.console.page.listing import ListQuery, cut_page, journal_page, list_query
from fairwarning.console.page.preview import OperationPreview, preview
from fairwarning.console.page.request import FormDone, PageContent, PageRequest
from fairwarning.core.commands import Approve
from fairwarning.core.errors import Conflict, Refused
from fairwarning.core.model import Event, EventStatus, EventType, Scope, Source
from fairwarning.core.rollout import rollout_of_step
from fairwarning.service.listing.filters import EventFilter

ScopedEvent = tuple[Scope, Event]

_ACTIONS = {"approve": "Approve", "cancel": "Cancel"}
_DONE = {"approve": "Approved", "cancel": "Cancelled"}
_SLICE = 200  # events that one request approves or cancels
_PARALLEL = 50  # requests
_SHOWN = 20  # events of a plan
_GROUPS_SHOWN = 20
_IN_GROUP = 8  # rows shown of a group
_ROWS = 8  # of the timeline
_CANCEL_TEXT = "Cancels the event: nothing happens to its machines."

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
        ended = await request.api.events(request.query("before"), query.size, wanted)
        page = journal_page(query, ended.next, len(ended.events))
        return PageContent("events.html", data | {"events": ended.events, "page": page})
    scoped_events = await request.api.find_events(wanted)
    data["bulk"] = _bulk(query, scoped_events) if request.can_edit else []
    if group := request.query("group"):
        if group not in _GROUPS:
            raise Refused("BadQuery", f"group must be one of {', '.join(_GROUPS)}")
        groups = _grouped(query, group, scoped_events)
        shown_groups = {"groups": groups[:_GROUPS_SHOWN], "more": len(groups) - _GROUPS_SHOWN}
        return PageContent("events.html", data | shown_groups)
    shown, page = cut_page(query, scoped_events)
    return PageContent("events.html", data | {"events": _infos(shown), "page": page})


def _grouped(query: ListQuery, group: str, scoped_events: list[ScopedEvent]) -> list[EventGroup]:
    """Return the groups, those with most events first."""
    members: dict[str, list[ScopedEvent]] = {}
    for each in scoped_events:
        members.setdefault(_GROUPS[group](*each), []).append(each)
    return [
        EventGroup(
            title=name or _NO_GROUP[group],
            count=len(events),
            events=_infos(events[:_IN_GROUP]),
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
        for action, label in _ACTIONS.items()
        if (count := sum(_suits(action, event) for _, event in scoped_events))
    ]


def _infos(scoped_events: Sequence[ScopedEvent]) -> list[EventInfo]:
    return [views.event_info(event, scope.id) for scope, event in scoped_events]


def _suits(action: str, event: Event) -> bool:
    """Whether the action would change the event."""
    is_open = event.status is EventStatus.SCHEDULED
    return is_open and not (action == "approve" and event.approved_by)


# --- All events of a filter: the plan first, then slice by slice ---


async def confirm_bulk(request: PageRequest) -> PageContent:
    """Show which events a form would approve or cancel, before it does."""
    action = request.query("action") or request.form.text("action")
    if action not in _ACTIONS:
        raise Refused("BadQuery", f"action must be one of {', '.join(_ACTIONS)}")
    now = request.fleet.clock.now()
    events = await _suitable(request, action, event_filter(request.query, now))
    machines = {(scope.id, name) for scope, event in events for name in event.resources}
    filters = {name: value for name in EVENT_FILTERS if (value := request.query(name))}
    data = {
        "action": action,
        "label": _ACTIONS[action],
        "count": len(events),
        "typed": len(events) > TYPED_ABOVE,
        "planned_at": int(now),
        "filter": filters,
        "events": _infos(events[:_SHOWN]),
        "types": Counter(event.type.value for _, event in events),
        "machines": len(machines),
        "scopes": len({scope.id for scope, _ in events}),
        "left_seconds": max(events[0][1].not_before - now, 0) if events else 0,
        "back": f"/events?{urlencode(filters)}" if filters else "/events",
    }
    return PageContent("events_confirm.html", data)


async def _suitable(request: PageRequest, action: str, wanted: EventFilter) -> list[ScopedEvent]:
    return [pair for pair in await request.api.find_events(wanted) if _suits(action, pair[1])]


async def act_on_all(request: PageRequest) -> FormDone:
    """Approve or cancel a slice of the planned events; the form is sent again for the next one."""
    form = request.form
    action, planned_at = form.text("action"), form.integer("planned_at", "the time of the plan")
    count, done, failed = (form.integer(name, name) or 0 for name in ("count", "done", "failed"))
    if action not in _ACTIONS or planned_at is None:
        raise Refused("BadForm", "choose approve or cancel in the list of events")
    check_typed(request)
    events = await _suitable(request, action, event_filter(form.text, planned_at))
    events = [pair for pair in events if pair[1].created_at < planned_at + 1]
    after = form.text("after")
    if not after and len(events) > count:
        text = f"nothing was changed: {len(events):,} events match now, not {count:,}; reload"
        raise Conflict("OtherEvents", f"{text} this page to see them")
    events = [pair for pair in events if place(pair) > after]
    ids = [event.id for _, event in events[:_SLICE]]
    failed += await _run(request, action, ids)
    done += len(ids)
    notice = f"{_DONE[action]} {words.count(done - failed, 'event')}."
    if failed:
        notice += f" {words.count(failed, 'event')} had started or ended before."
    if len(events) <= _SLICE:
        return FormDone(notice, "/events")
    text = f"{_DONE[action]} {done:,} of {words.count(count, 'event')}; keep this page open."
    again = {"after": place(events[_SLICE - 1]), "done": str(done), "failed": str(failed)}
    filters = {name: value for name in EVENT_FILTERS if (value := form.text(name))}
    rest = f"/events/confirm?{urlencode({**filters, 'action': action})}"
    return FormDone(text, rest, again)


async def _run(request: PageRequest, action: str, ids: Sequence[str]) -> int:
    """Approve or cancel these events, and return how many of them had started or ended."""
    run = request.api.approve if action == "approve" else request.api.cancel
    failed = 0
    for begin in range(0, len(ids), _PARALLEL):
        results = await asyncio.gather(
            *(run(name, request.actor) for name in ids[begin : begin + _PARALLEL]),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, Refused):  # or NotFound, or Conflict
                failed += 1
            elif isinstance(result, BaseException):
                raise result
    return failed


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
    effect = effect or _approve_text(event, views.time(request.fleet.clock.now()))
    return [OperationPreview("approve", "Approve", effect, "primary"), cancel]


def _approve_text(event: EventInfo, now: str) -> str:
    """Say when an event starts that does not start at once."""
    if event.opens_at is None or event.opens_at <= now:  # times of the API sort as text
        return "Approves the event. It starts once all other approvals are in."
    others = "all other approvals are in and " if event.awaits else ""
    opens_at = words.time_of_day(event.opens_at, now)
    return (
        f"Approves the event. It starts once {others}its maintenance window opens, at {opens_at}."
    )


async def approve(request: PageRequest) -> FormDone:
    """Approve the event."""
    event = await request.api.approve(request.path_param("id"), request.actor)
    return FormDone("Event approved.", f"/events/{event.id}")


async def cancel(request: PageRequest) -> FormDone:
    """Cancel the event."""
    event = await request.api.cancel(request.path_param("id"), request.actor)
    return FormDone("Event cancelled.", f"/events/{event.id}")


VIEWS = (("/events", index), ("/events/confirm", confirm_bulk), ("/events/{id}", show))
FORMS = (
    ("/events/confirm", act_on_all, confirm_bulk),
    ("/events/{id}/approve", approve, show),
    ("/events/{id}/cancel", cancel, show),
)
