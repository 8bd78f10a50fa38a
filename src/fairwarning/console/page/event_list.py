"""The page that lists events: filters, groups, and approving or cancelling many at once (O14)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fairwarning.console.api import views
from fairwarning.console.api.filters import EVENT_FILTERS, OVER, event_filter
from fairwarning.console.api.responses import EventInfo
from fairwarning.console.page import timeline, words
from fairwarning.console.page.form_data import FormDone
from fairwarning.console.page.listing import PAGE, ListQuery, cut_page, list_query
from fairwarning.console.page.request import FormRoutes, PageContent, PageRequest, Views
from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.model import Event, EventStatus, EventType, Rollout, Scope, Source
from fairwarning.core.rollout import rollout_of_step
from fairwarning.service.listing.filters import EventFilter

ScopedEvent = tuple[Scope, Event]

AT_ONCE = 500  # events that one form approves or cancels
_PARALLEL = 50  # requests
_GROUPS_SHOWN = 20
_IN_GROUP = 8  # rows shown of a group
_PREVIEWED = 20
_ROWS = 8  # of the timeline

_SORTS: dict[str, Callable[[ScopedEvent], Any]] = {
    "start": lambda pair: (pair[1].not_before, pair[1].id),
    "type": lambda pair: (pair[1].type, pair[1].not_before, pair[1].id),
    "status": lambda pair: (pair[1].status, pair[1].not_before, pair[1].id),
    "scope": lambda pair: (pair[0].id, pair[1].not_before, pair[1].id),
    "created": lambda pair: (pair[1].created_at, pair[1].id),
}
_GROUPS: dict[str, Callable[[Scope, Event], str]] = {
    "rollout": lambda _, event: rollout_of_step(event.operation),
    "set": lambda scope, _: scope.owner,
    "type": lambda _, event: event.type.value,
}
_NO_GROUP = {"rollout": "Without a rollout", "set": "Without a scale set", "type": ""}
_ACTIONS = {"approve": "Approve", "cancel": "Cancel"}
_DONE = {"approve": "Approved", "cancel": "Cancelled"}


@dataclass(frozen=True)
class EventGroup:
    """Events of one rollout, scale set or type: the first of them, and a link to all."""

    title: str
    count: int
    events: list[EventInfo]
    link: str


async def show(request: PageRequest) -> PageContent:
    """Show the events that the filter allows: a table, groups of it, or ended ones."""
    names = (*EVENT_FILTERS, "group", "before", "window")
    query = list_query(request, names, tuple(_SORTS))
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
        "older": "",
        "more": 0,
    }
    data |= await timeline_data(request, wanted, _ROWS)
    if wanted.status == OVER:
        return PageContent("events.html", data | await _ended(request, query, wanted))
    scoped_events = await find_events(request, wanted)
    scoped_events.sort(key=_SORTS[query.sort.removeprefix("-")], reverse=query.sort.startswith("-"))
    data["bulk"] = _bulk(query, scoped_events) if request.can_edit else []
    if group := request.query("group"):
        if group not in _GROUPS:
            raise Refused("BadQuery", f"group must be one of {', '.join(_GROUPS)}")
        groups = _grouped(query, group, scoped_events)
        shown_groups = {"groups": groups[:_GROUPS_SHOWN], "more": len(groups) - _GROUPS_SHOWN}
        return PageContent("events.html", data | shown_groups)
    shown, page = cut_page(query, scoped_events)
    return PageContent("events.html", data | {"events": infos(shown), "page": page})


async def find_events(request: PageRequest, wanted: EventFilter) -> list[ScopedEvent]:
    """Return the live events that a filter allows."""
    index = request.api.index
    await index.refresh()
    return [pair for pair in index.events() if wanted.allows(*pair)]


def infos(scoped_events: Iterable[ScopedEvent]) -> list[EventInfo]:
    """Describe events."""
    return [views.event_info(event, scope.id) for scope, event in scoped_events]


async def _ended(request: PageRequest, query: ListQuery, wanted: EventFilter) -> dict[str, Any]:
    page = await request.api.events(request.query("before"), PAGE, wanted)
    older = query.link(before=page.next) if page.next else ""
    return {"events": page.events, "older": older}


def _grouped(query: ListQuery, group: str, scoped_events: list[ScopedEvent]) -> list[EventGroup]:
    """Return the groups, those with most events first."""
    members: dict[str, list[ScopedEvent]] = {}
    for each in scoped_events:
        members.setdefault(_GROUPS[group](*each), []).append(each)
    return [
        EventGroup(
            title=name or _NO_GROUP[group],
            count=len(events),
            events=infos(events[:_IN_GROUP]),
            link=query.link(**{group: name, "group": ""}) if name else "",
        )
        for name, events in sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


# --- The timeline ---


async def timeline_data(request: PageRequest, wanted: EventFilter, rows: int) -> dict[str, Any]:
    """Return the timeline of the events that a filter allows, with rollouts as one row each."""
    seconds = request.query_integer("window")
    if seconds not in timeline.WINDOWS:
        seconds = timeline.DEFAULT_WINDOW
    recent = await request.api.filtered_timeline(seconds, wanted)
    names = {rollout_of_step(event.operation) for event in recent.events} - {""}
    rollouts = {name for name in names if await request.fleet.reader.read(Rollout, name)}
    chart = timeline.chart(recent.events, recent.now, seconds, rollouts=rollouts, rows=rows)
    return {"chart": chart, "windows": timeline.WINDOWS}


# --- Many events at once ---


def _bulk(query: ListQuery, scoped_events: list[ScopedEvent]) -> list[dict[str, str]]:
    """Return the buttons that act on all scheduled events of the filter."""
    count = sum(event.status is EventStatus.SCHEDULED for _, event in scoped_events)
    if not count:
        return []
    shown = {name: value for name, value in query.values.items() if name in EVENT_FILTERS}
    return [
        {
            "label": f"{label} {words.count(min(count, AT_ONCE), 'event')}…",
            "link": f"/events/confirm?{urlencode({**shown, 'action': action})}",
        }
        for action, label in _ACTIONS.items()
    ]


async def confirm(request: PageRequest) -> PageContent:
    """Show which events a form would approve or cancel, before it does."""
    action = request.query("action") or request.form.text("action")
    if action not in _ACTIONS:
        raise Refused("BadQuery", f"action must be one of {', '.join(_ACTIONS)}")
    wanted = event_filter(request.query, request.fleet.clock.now())
    scoped_events = await find_events(request, wanted)
    scoped_events = [each for each in scoped_events if each[1].status is EventStatus.SCHEDULED]
    scoped_events.sort(key=_SORTS["start"])
    chosen = scoped_events[:AT_ONCE]
    machines = {(scope.id, name) for scope, event in chosen for name in event.resources}
    back = {name: value for name in EVENT_FILTERS if (value := request.query(name))}
    data = {
        "action": action,
        "label": _ACTIONS[action],
        "ids": [event.id for _, event in chosen],
        "events": infos(chosen[:_PREVIEWED]),
        "types": Counter(event.type.value for _, event in chosen),
        "machines": len(machines),
        "scopes": len({scope.id for scope, _ in chosen}),
        "left": len(scoped_events) - len(chosen),
        "back": f"/events?{urlencode(back)}" if back else "/events",
    }
    return PageContent("events_confirm.html", data)


async def act(request: PageRequest) -> FormDone:
    """Approve or cancel the events that the confirmation has listed."""
    action, ids = request.form.text("action"), request.form.all("event")
    if action not in _ACTIONS or not ids or len(ids) > AT_ONCE:
        text = f"choose approve or cancel, and 1 to {AT_ONCE} events; go back to the list of events"
        raise Refused("BadForm", text)
    run = request.api.approve if action == "approve" else request.api.cancel
    failed = 0
    for begin in range(0, len(ids), _PARALLEL):
        results = await asyncio.gather(
            *(run(name, request.actor) for name in ids[begin : begin + _PARALLEL]),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, FairwarningError):
                failed += 1
            elif isinstance(result, BaseException):
                raise result
    done = words.count(len(ids) - failed, "event")
    notice = f"{_DONE[action]} {done}."
    if failed:
        notice += f" {words.count(failed, 'event')} had started or ended before."
    return FormDone(notice, "/events")


VIEWS: Views = [("/events", show), ("/events/confirm", confirm)]
FORMS: FormRoutes = [("/events/confirm", act, confirm)]
