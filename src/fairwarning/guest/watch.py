"""What changed between two readings of the document. Pure.

Only documents count. A reading that failed is no document, so what was known stays known (IG5).
Incarnations are not compared: they begin anew once nobody has asked for a day, and a document
whose number was seen before may well be another.
"""

from dataclasses import dataclass
from enum import StrEnum

from fairwarning.guest.events import Document, Event


class Phase(StrEnum):
    """What there is to do about an event."""

    SCHEDULED = "scheduled"  # it was announced
    STARTED = "started"  # it has begun, announced or not
    OVER = "over"  # it is gone: carried out, or cancelled
    CHANGED = "changed"  # it is another in ways that matter: when, or whom


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened to an event."""

    phase: Phase
    event: Event
    cancelled: bool = False
    """Over without ever having been seen started: perhaps cancelled, perhaps only quick."""


def changes(before: Document, after: Document) -> tuple[Change, ...]:
    """What happened between two readings: first what is over, then the rest as it is listed."""
    old = {event.id.upper(): event for event in before.events}
    new = {event.id.upper(): event for event in after.events}
    found = [
        Change(Phase.OVER, event, cancelled=not event.started)
        for key, event in old.items()
        if key not in new
    ]
    for key, event in new.items():
        found += _of_one(old.get(key), event)
    return tuple(found)


def _of_one(before: Event | None, event: Event) -> list[Change]:
    if before is None:
        return [Change(Phase.STARTED if event.started else Phase.SCHEDULED, event)]
    if event.started and not before.started:
        return [Change(Phase.STARTED, event)]
    if (before.not_before, before.resources) != (event.not_before, event.resources):
        return [Change(Phase.CHANGED, event)]
    return []
