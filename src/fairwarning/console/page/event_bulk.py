"""Approving or cancelling all events of a filter: the plan first, then slice by slice (O14)."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from fairwarning.console.api import views
from fairwarning.console.api.events import place
from fairwarning.console.api.filters import EVENT_FILTERS, event_filter
from fairwarning.console.api.responses import EventInfo
from fairwarning.console.page import words
from fairwarning.console.page.confirm import TYPED_ABOVE, check_typed
from fairwarning.console.page.form_data import FormDone
from fairwarning.console.page.request import FormRoutes, PageContent, PageRequest, Views
from fairwarning.core.errors import Conflict, FairwarningError, Refused
from fairwarning.core.model import Event, EventStatus, Scope
from fairwarning.service.listing.filters import EventFilter

ScopedEvent = tuple[Scope, Event]

ACTIONS = {"approve": "Approve", "cancel": "Cancel"}
SLICE = 200  # events that one request approves or cancels
_PARALLEL = 50  # requests
_SHOWN = 20  # events of a plan
_DONE = {"approve": "Approved", "cancel": "Cancelled"}


def infos(scoped_events: Iterable[ScopedEvent]) -> list[EventInfo]:
    """Describe events."""
    return [views.event_info(event, scope.id) for scope, event in scoped_events]


def suits(action: str, event: Event) -> bool:
    """Whether the action would change the event."""
    is_open = event.status is EventStatus.SCHEDULED
    return is_open and not (action == "approve" and event.approved_by)


async def confirm(request: PageRequest) -> PageContent:
    """Show which events a form would approve or cancel, before it does."""
    action = request.query("action") or request.form.text("action")
    if action not in ACTIONS:
        raise Refused("BadQuery", f"action must be one of {', '.join(ACTIONS)}")
    now = request.fleet.clock.now()
    events = await _events(request, action, event_filter(request.query, now))
    machines = {(scope.id, name) for scope, event in events for name in event.resources}
    filters = {name: value for name in EVENT_FILTERS if (value := request.query(name))}
    data = {
        "action": action,
        "label": ACTIONS[action],
        "count": len(events),
        "typed": len(events) > TYPED_ABOVE,
        "planned_at": int(now),
        "filter": filters,
        "events": infos(events[:_SHOWN]),
        "types": Counter(event.type.value for _, event in events),
        "machines": len(machines),
        "scopes": len({scope.id for scope, _ in events}),
        "left_seconds": max(events[0][1].not_before - now, 0) if events else 0,
        "back": f"/events?{urlencode(filters)}" if filters else "/events",
    }
    return PageContent("events_confirm.html", data)


async def _events(request: PageRequest, action: str, wanted: EventFilter) -> list[ScopedEvent]:
    return [pair for pair in await request.api.find_events(wanted) if suits(action, pair[1])]


async def act(request: PageRequest) -> FormDone:
    """Approve or cancel a slice of the planned events; the form is sent again for the next one."""
    form = request.form
    action, planned_at = form.text("action"), form.integer("planned_at", "the time of the plan")
    count, done, failed = (form.integer(name, name) or 0 for name in ("count", "done", "failed"))
    if action not in ACTIONS or planned_at is None:
        raise Refused("BadForm", "choose approve or cancel in the list of events")
    check_typed(form)
    events = await _events(request, action, event_filter(form.text, planned_at))
    events = [pair for pair in events if pair[1].created_at < planned_at + 1]
    after = form.text("after")
    if not after and len(events) > count:
        text = f"nothing was changed: {len(events):,} events match now, not {count:,}; reload"
        raise Conflict("OtherEvents", f"{text} this page to see them")
    events = [pair for pair in events if place(pair) > after]
    ids = [event.id for _, event in events[:SLICE]]
    failed += await _run(request, action, ids)
    done += len(ids)
    notice = f"{_DONE[action]} {words.count(done - failed, 'event')}."
    if failed:
        notice += f" {words.count(failed, 'event')} had started or ended before."
    if len(events) <= SLICE:
        return FormDone(notice, "/events")
    text = f"{_DONE[action]} {done:,} of {words.count(count, 'event')}; keep this page open."
    again = {"after": place(events[SLICE - 1]), "done": str(done), "failed": str(failed)}
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
            if isinstance(result, FairwarningError):
                failed += 1
            elif isinstance(result, BaseException):
                raise result
    return failed


VIEWS: Views = [("/events/confirm", confirm)]
FORMS: FormRoutes = [("/events/confirm", act, confirm)]
