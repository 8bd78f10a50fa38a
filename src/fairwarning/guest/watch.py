"""Changes between two documents. Pure.

A failed read yields no document, so the last one stays valid (IG5). Incarnations are not compared:
they restart after a day without polls, so two documents may share a number.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairwarning.guest.events import Document, Event
from fairwarning.guest.text_enum import StrEnum


class Phase(StrEnum):
    """The kind of a change to an event."""

    SCHEDULED = "scheduled"  # it was announced
    STARTED = "started"  # it has started, announced or not
    OVER = "over"  # it is gone: carried out or cancelled
    CHANGED = "changed"  # NotBefore or the resources differ; their order does not count


@dataclass(frozen=True)
class Change:
    """A change to an event."""

    phase: Phase
    event: Event
    cancelled: bool = False
    """Over without a Started status seen: cancelled, or too short to be seen."""


def changes(before: Document, after: Document) -> tuple[Change, ...]:
    """Return the changes between two documents: first events that are over, then the others."""
    old = {event.id.upper(): event for event in before.events}
    new = {event.id.upper(): event for event in after.events}
    result = [
        Change(Phase.OVER, event, cancelled=not event.started)
        for key, event in old.items()
        if key not in new
    ]
    for key, event in new.items():
        result += _event_changes(old.get(key), event)
    return tuple(result)


def _event_changes(before: Event | None, event: Event) -> list[Change]:
    if before is None:
        return [Change(Phase.STARTED if event.started else Phase.SCHEDULED, event)]
    if event.started and not before.started:
        return [Change(Phase.STARTED, event)]
    moved = before.not_before != event.not_before
    if moved or sorted(before.resources) != sorted(event.resources):
        return [Change(Phase.CHANGED, event)]
    return []
