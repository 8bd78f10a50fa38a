"""The document of scheduled events, at any api-version, and what changed between two (G1). Pure.

Later versions will add values and members: an unknown type, status or source stays a string, and
unknown members are ignored. An event that cannot be used is skipped, and the document says so.

`Event`, `EventStatus` and `EventType` exist in `core.model` too, which the guest side must not
import; its users know them by these names.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from fairwarning.core import times
from fairwarning.core.errors import FairwarningError
from fairwarning.guest.endpoint_time import read_date
from fairwarning.guest.text_enum import StrEnum


class EventType(StrEnum):
    """The impact that an event announces."""

    FREEZE = "Freeze"
    REBOOT = "Reboot"
    REDEPLOY = "Redeploy"
    PREEMPT = "Preempt"
    TERMINATE = "Terminate"
    SPOT_REBALANCE = "SpotRebalanceRecommendation"


class EventStatus(StrEnum):
    """The status of an event. An event that is over is no longer in the document."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"


class EventSource(StrEnum):
    """The initiator of an event."""

    PLATFORM = "Platform"
    USER = "User"


class Unreadable(FairwarningError):
    """The endpoint's response is not a document. It does not mean "no events" (IG5)."""


def normalize_name(name: str) -> str:
    """Normalize a machine name: ignore case and the leading underscore of 2017-03-01."""
    return name.lower().lstrip("_")


@dataclass(frozen=True)
class Event:
    """Notice of an impact on machines."""

    id: str
    type: EventType | str
    status: EventStatus | str
    resources: tuple[str, ...]
    not_before: datetime | None = None  # in UTC; None if started or not given
    source: EventSource | str = ""  # empty before api-version 2019-08-01
    duration: timedelta | None = None  # of the interruption, if known
    description: str = ""
    resource_type: str = "VirtualMachine"

    @property
    def started(self) -> bool:
        """Whether the event has started."""
        return self.status == EventStatus.STARTED

    def concerns(self, name: str) -> bool:
        """Whether the event names this machine."""
        return normalize_name(name) in map(normalize_name, self.resources)

    def concerns_only(self, name: str) -> bool:
        """Whether the event names this machine and no other: approving it affects nobody else."""
        return {normalize_name(resource) for resource in self.resources} == {normalize_name(name)}

    def seconds_left(self, now: datetime) -> float:
        """Seconds until the event may start; 0 if it has started or has no NotBefore."""
        if self.started or self.not_before is None:
            return 0.0
        return max(0.0, (self.not_before - now).total_seconds())


@dataclass(frozen=True)
class SkippedEvent:
    """An event of a document that cannot be used."""

    id: str  # empty if it is not known
    reason: str


@dataclass(frozen=True)
class Document:
    """The document of scheduled events."""

    incarnation: int = 0
    events: tuple[Event, ...] = ()
    assumed: bool = False
    """No document was ever read: the response was empty, as Azure's may be on an idle machine."""
    skipped: tuple[SkippedEvent, ...] = ()

    def find(self, event: str) -> Event | None:
        """Return the event with this id."""
        key = event.upper()
        return next((candidate for candidate in self.events if candidate.id.upper() == key), None)


_NUMBER_CHARACTERS = 300  # some Pythons take minutes for longer ones
_ID_CHARACTERS = 80  # of a GUID: 36
_NAME_CHARACTERS = 250
_DESCRIPTION_CHARACTERS = 4000
_SKIPPED = 100  # of more, only the number is kept


class _MalformedEvent(ValueError):
    """An event lacks a member, or has an unusable one. The text says which."""


def read(body: bytes) -> Document:
    """Parse a document; raise `Unreadable` for any other response."""
    try:
        raw = json.loads(body, parse_int=_number)
        if not isinstance(raw["Events"], list):
            raise TypeError(raw["Events"])
        incarnation = raw["DocumentIncarnation"]
        number = _number(incarnation) if isinstance(incarnation, str) else int(incarnation)
        return _document(number, raw["Events"])
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
        shown = body[:80].decode("utf-8", "replace")
        text = f"the endpoint's response is not a document of scheduled events: {shown!r}"
        raise Unreadable("Unreadable", text) from error


def keep_skipped(document: Document, before: Document) -> Document:
    """Return a document with the events of an earlier one that may be among those it skips.

    A malformed event is not over: its last known form stays valid (IG5).
    """
    skipped = {event.id.upper() for event in document.skipped}
    listed = {event.id.upper() for event in document.events}
    kept = tuple(
        event
        for event in before.events
        if event.id.upper() not in listed and not skipped.isdisjoint({event.id.upper(), ""})
    )
    return replace(document, events=document.events + kept) if kept else document


def _number(text: str) -> int:
    if len(text) > _NUMBER_CHARACTERS:
        raise ValueError("the number is too long")
    return int(text)


def _document(incarnation: int, listed: list[object]) -> Document:
    events: list[Event] = []
    skipped: list[SkippedEvent] = []
    for raw in listed:
        try:
            events.append(from_json(raw))
        except _MalformedEvent as error:
            skipped.append(SkippedEvent(_readable_id(raw), str(error)))
    if len(skipped) > _SKIPPED:
        more = SkippedEvent("", f"{len(skipped) - _SKIPPED} more events are malformed")
        skipped[_SKIPPED:] = [more]
    return Document(incarnation, tuple(events), skipped=tuple(skipped))


def _readable_id(raw: object) -> str:
    try:
        return _required(raw, "EventId") if isinstance(raw, dict) else ""
    except _MalformedEvent:
        return ""


def from_json(raw: object) -> Event:
    """Parse an event as the endpoint or `to_json` writes it; raise `ValueError` for any other."""
    if not isinstance(raw, dict):
        raise _MalformedEvent("it is not a JSON object")
    resources = raw.get("Resources")
    if not isinstance(resources, list) or not all(map(_is_name, resources)):
        raise _MalformedEvent("its Resources are not a list of names")
    seconds = read_date(raw.get("NotBefore"))
    return Event(
        id=_required(raw, "EventId"),
        type=_known(EventType, _required(raw, "EventType")),
        status=_known(EventStatus, _required(raw, "EventStatus")),
        resources=tuple(resources),
        not_before=None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc),
        source=_known(EventSource, _text(raw.get("EventSource"), _NAME_CHARACTERS)),
        duration=_duration(raw.get("DurationInSeconds")),
        description=_text(raw.get("Description"), _DESCRIPTION_CHARACTERS),
        resource_type=_text(raw.get("ResourceType"), _NAME_CHARACTERS) or "VirtualMachine",
    )


def date_text(when: datetime | None) -> str:
    """Return a date as the endpoint writes it; empty for none."""
    return times.iso(int(when.timestamp())) if when else ""


def to_json(event: Event) -> dict[str, Any]:
    """Return an event with the endpoint's member names, for any api-version."""
    return {
        "EventId": event.id,
        "EventStatus": str(event.status),
        "EventType": str(event.type),
        "ResourceType": event.resource_type,
        "Resources": list(event.resources),
        "NotBefore": date_text(event.not_before),
        "Description": event.description,
        "EventSource": str(event.source),
        "DurationInSeconds": -1 if event.duration is None else int(event.duration.total_seconds()),
    }


def _required(raw: dict[str, object], member: str) -> str:
    value = raw.get(member)
    if not _is_name(value, _ID_CHARACTERS):
        raise _MalformedEvent(f"its {member} is missing or is not a short text")
    assert isinstance(value, str)
    return value


def _is_name(value: object, characters: int = _NAME_CHARACTERS) -> bool:
    """Whether a value can be used in commands, file names and variables."""
    return isinstance(value, str) and 0 < len(value) <= characters and value.isprintable()


def _text(value: object, characters: int) -> str:
    """Return a text for people; empty if the value is none."""
    text = value[:characters] if isinstance(value, str) else ""
    return text.encode("utf-8", "replace").decode("utf-8")  # half a character cannot be printed


E = TypeVar("E", bound=StrEnum)


def _known(kind: type[E], text: str) -> E | str:
    return next((member for member in kind if member.value.lower() == text.lower()), text)


def _duration(value: object) -> timedelta | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9:
        return timedelta(seconds=value)
    return None


# --- Changes --------------------------------------------------------------------------------------
# A failed read yields no document, so the last one stays valid (IG5). Incarnations are not
# compared: they restart after a day without polls, so two documents may share a number.


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
