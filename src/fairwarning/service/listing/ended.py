"""Events that have ended, from the journal, newest first."""

from collections.abc import Iterable

from fairwarning.core.decision import EVENT_ENDED
from fairwarning.core.model import Scope
from fairwarning.service.fleet import Fleet
from fairwarning.service.history.events import EventHistory, JournalEntry, event_histories
from fairwarning.service.listing.filters import EventFilter, has_text

_PAGE = 100
_LINES = 20_000  # searched for a page, which may then be short
_EVENT_LINES = 1000  # of one event


async def ended_events(
    fleet: Fleet, wanted: EventFilter, before: int | None, limit: int
) -> tuple[list[EventHistory], int | None]:
    """Return ended events, and the line before which the next page begins, if there may be one."""
    histories: list[EventHistory] = []
    searched = 0
    while searched < _LINES:
        lines = await fleet.reader.latest_lines(_PAGE, before=before)
        for entry in lines:
            before = entry.number
            if _is_end(entry) and (history := await _history(fleet, entry)):
                histories += [history] if allows(wanted, history) else []
            if len(histories) == limit:
                return histories, before
        searched += len(lines)
        if len(lines) < _PAGE:
            return histories, None
    return histories, before


def _is_end(entry: JournalEntry) -> bool:
    return entry.line.fact.type in EVENT_ENDED and entry.line.entity[0] is Scope


async def _history(fleet: Fleet, entry: JournalEntry) -> EventHistory | None:
    event = entry.line.fact.event
    lines = await fleet.reader.journal(event=event, limit=_EVENT_LINES)
    return event_histories(lines).get(event)


def allows(wanted: EventFilter, history: EventHistory) -> bool:
    """Whether an ended event meets the conditions."""
    starts = history.started_at or history.not_before or history.created_at or 0.0
    of_set = history.scope == wanted.set or history.scope.startswith(f"{wanted.set}/")
    return (
        (not wanted.scope or history.scope == wanted.scope)
        and (not wanted.set or of_set)
        and (not wanted.machine or wanted.machine in history.resources)
        and (not wanted.type or history.type == wanted.type)
        and (not wanted.source or history.source == wanted.source)
        and (not wanted.operation or history.operation == wanted.operation)
        and (not wanted.rollout or history.operation.startswith(f"{wanted.rollout}/"))
        and not (wanted.not_polled and history.not_before is not None)
        and not (wanted.unapproved and history.approved_by)
        and history.id.startswith(wanted.prefix)
        and (wanted.since is None or starts >= wanted.since)
        and (wanted.until is None or starts <= wanted.until)
        and (not wanted.text or has_text(wanted.text, _places(history)))
    )


def _places(history: EventHistory) -> Iterable[str]:
    return history.id, history.scope, *history.resources
