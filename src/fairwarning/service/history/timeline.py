"""The timeline: events of the whole fleet that are scheduled, started or recently ended (O8)."""

from collections.abc import Mapping
from functools import partial

from fairwarning.core.model import Event, EventStatus, Scope
from fairwarning.core.record import record
from fairwarning.service.fleet import Fleet
from fairwarning.service.history.events import (
    EventHistory,
    JournalEntry,
    add_line,
    event_histories,
)

LINES = 5000  # journal lines read at most
EVENTS = 500  # events shown at most
_PAGE = 100


@record
class EventTimeline:
    """Events that existed between `begins` and `now`, ordered by creation."""

    begins: float
    now: float
    events: tuple[tuple[EventHistory, Event | None], ...]  # the event: None once it has ended
    cut: bool  # there may be more


async def timeline(fleet: Fleet, seconds: float) -> EventTimeline:
    """Events of the last `seconds`, and those to come."""
    now = fleet.clock.now()
    begins = now - seconds
    entries, cut = await _since(fleet, begins)
    histories: dict[str, EventHistory] = {}
    await fleet.reader.share.map(partial(add_line, histories), entries)
    current = await live_events(fleet, "", EVENTS)
    live = {event.id: event for _, event in current}
    histories |= {e.id: _new_history(scope, e) for scope, e in current if not _acted_on(e)}
    for name in {*live, *histories}:
        if name not in histories or not histories[name].is_complete:
            histories |= event_histories(await fleet.reader.journal(event=name, limit=LINES))
    for scope, event in current:
        histories.setdefault(event.id, _new_history(scope, event)).complete_from(event)
    shown = [h for h in histories.values() if h.is_complete and _is_shown(h, begins, live)]
    shown.sort(key=lambda history: (history.id in live, *_creation(history)))
    cut = cut or len(current) >= EVENTS or len(shown) > EVENTS
    newest = sorted(shown[-EVENTS:], key=_creation)
    return EventTimeline(
        begins=begins,
        now=now,
        events=tuple((history, live.get(history.id)) for history in newest),
        cut=cut,
    )


def _creation(history: EventHistory) -> tuple[float, str]:
    return history.created_at or 0.0, history.id


def _is_shown(history: EventHistory, begins: float, live: Mapping[str, Event]) -> bool:
    """Whether the event exists, or ended after `begins`."""
    return history.id in live if history.ended_at is None else history.ended_at >= begins


def _acted_on(event: Event) -> bool:
    return event.status is EventStatus.STARTED or bool(event.approved_by)


def _new_history(scope: str, event: Event) -> EventHistory:
    """The history of an event that was only announced so far; the journal need not be read."""
    history = EventHistory(id=event.id, scope=scope)
    history.complete_from(event)
    return history


async def _since(fleet: Fleet, begins: float) -> tuple[list[JournalEntry], bool]:
    """Journal lines since `begins`, oldest first, and whether the limit cut some off."""
    lines: list[JournalEntry] = []
    before = None
    while len(lines) < LINES:
        page = await fleet.reader.latest_lines(_PAGE, before=before)
        lines += [entry for entry in page if entry.line.at >= begins]
        if len(page) < _PAGE or page[-1].line.at < begins:
            return lines[::-1], False
        before = page[-1].number
    return lines[::-1], True


async def live_events(fleet: Fleet, after: str, limit: int) -> list[tuple[str, Event]]:
    """Current events with their scopes: whole scopes, until there are `limit` events."""
    events: list[tuple[str, Event]] = []
    while len(events) < limit:
        names = await fleet.reader.scopes_with_events(after, _PAGE)
        for name in names:
            scope = await fleet.reader.read(Scope, name)
            events += [(name, event) for event in scope.events.values()] if scope else []
            if len(events) >= limit:
                break
        if len(names) < _PAGE:
            break
        after = names[-1]
    return events
