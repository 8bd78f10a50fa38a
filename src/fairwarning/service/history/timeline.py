"""What is planned, under way, and lately over, in all of the fleet (O8)."""

from collections.abc import Mapping

from fairwarning.core.model import Event, EventStatus, Scope
from fairwarning.core.record import record
from fairwarning.service.fleet import Fleet
from fairwarning.service.history.events import EventHistory, JournalEntry, event_histories

LINES = 5000  # of the journal, looked through at most
EVENTS = 500  # shown at most
_PAGE = 1000


@record
class EventTimeline:
    """Events whose lives touch the time from `begins` to `now`, in order of their creation."""

    begins: float
    now: float
    events: tuple[tuple[EventHistory, Event | None], ...]  # with the event itself while it is there
    cut: bool  # there may have been more


async def timeline(fleet: Fleet, seconds: float) -> EventTimeline:
    """The last so many seconds, and what is to come."""
    now = fleet.clock.now()
    begins = now - seconds
    entries, cut = await _since(fleet, begins)
    found = event_histories(entries)
    there = await live_events(fleet, "", EVENTS)
    live = {event.id: event for _, event in there}
    found |= {event.id: _waiting(scope, event) for scope, event in there if not _acted_on(event)}
    for name in {*live, *found}:
        if name not in found or not found[name].whole:
            found |= event_histories(await fleet.store.journal(event=name, limit=LINES))
    shown = [life for life in found.values() if life.whole and _is_shown(life, begins, live)]
    shown.sort(key=lambda life: (life.id in live, life.created_at or 0.0, life.id))
    cut = cut or len(there) >= EVENTS or len(shown) > EVENTS
    newest = sorted(shown[-EVENTS:], key=lambda life: (life.created_at or 0.0, life.id))
    return EventTimeline(
        begins=begins,
        now=now,
        events=tuple((life, live.get(life.id)) for life in newest),
        cut=cut,
    )


def _is_shown(life: EventHistory, begins: float, live: Mapping[str, Event]) -> bool:
    """What is there, and what was over since then; of more that is there we know too little."""
    return life.id in live if life.ended_at is None else life.ended_at >= begins


def _acted_on(event: Event) -> bool:
    return event.status is EventStatus.STARTED or bool(event.approved_by)


def _waiting(scope: str, event: Event) -> EventHistory:
    """Of an event to which nothing has happened yet the journal knows no more than itself."""
    return EventHistory(
        id=event.id,
        scope=scope,
        operation=event.operation,
        resources=event.resources,
        type=event.type,
        source=event.source,
        created_at=event.created_at,
        not_before=event.not_before,
    )


async def _since(fleet: Fleet, begins: float) -> tuple[list[JournalEntry], bool]:
    """The journal from a moment on, oldest first; whether it goes further back than we looked."""
    found: list[JournalEntry] = []
    before = None
    while len(found) < LINES:
        page = await fleet.store.latest_lines(_PAGE, before=before)
        found += [entry for entry in page if entry.line.at >= begins]
        if len(page) < _PAGE or page[-1].line.at < begins:
            return found[::-1], False
        before = page[-1].number
    return found[::-1], True


async def live_events(fleet: Fleet, after: str, limit: int) -> list[tuple[str, Event]]:
    """Events that are there, with their scopes: whole scopes, until there are `limit` events."""
    found: list[tuple[str, Event]] = []
    while len(found) < limit:
        names = await fleet.store.scopes_with_events(after, _PAGE)
        for name in names:
            scope = await fleet.reader.read(Scope, name)
            found += [(name, event) for event in scope.events.values()] if scope else []
            if len(found) >= limit:
                break
        if len(names) < _PAGE:
            break
        after = names[-1]
    return found
