"""Parse the document of scheduled events, at any api-version (G1).

Later versions will add values and members: an unknown type, status or source stays a string, and
unknown members are ignored.

`Event`, `EventStatus` and `EventType` exist in `core.model` too, which the guest side must not
import; its users know them by these names.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from fairwarning.core import times
from fairwarning.core.errors import FairwarningError, Refused
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
class Document:
    """The document of scheduled events."""

    incarnation: int = 0
    events: tuple[Event, ...] = ()
    assumed: bool = False
    """No document was ever read: the response was empty, as Azure's may be on an idle machine."""

    def find(self, event: str) -> Event | None:
        """Return the event with this id."""
        key = event.upper()
        return next((candidate for candidate in self.events if candidate.id.upper() == key), None)


_NO_DOCUMENT = (
    ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip


def read(body: bytes) -> Document:
    """Parse a document; raise `Unreadable` for any other response."""
    try:
        raw = json.loads(body)
        if not isinstance(raw["Events"], list):
            raise TypeError(raw["Events"])
        events = tuple(from_json(event) for event in raw["Events"])
        return Document(int(raw["DocumentIncarnation"]), events)
    except _NO_DOCUMENT as error:
        shown = body[:80].decode("utf-8", "replace")
        text = f"the endpoint's response is not a document of scheduled events: {shown!r}"
        raise Unreadable("Unreadable", text) from error


def from_json(raw: dict[str, Any]) -> Event:
    """Parse an event as the endpoint or `to_json` writes it."""
    return Event(
        id=_text(raw["EventId"]),
        type=_known(EventType, raw["EventType"]),
        status=_known(EventStatus, raw["EventStatus"]),
        resources=_names(raw["Resources"]),
        not_before=_date(raw.get("NotBefore")),
        source=_known(EventSource, raw.get("EventSource") or ""),
        duration=_duration(raw.get("DurationInSeconds")),
        description=str(raw.get("Description") or ""),
        resource_type=str(raw.get("ResourceType") or "VirtualMachine"),
    )


def to_json(event: Event) -> dict[str, Any]:
    """Return an event with the endpoint's member names, for any api-version."""
    return {
        "EventId": event.id,
        "EventStatus": str(event.status),
        "EventType": str(event.type),
        "ResourceType": event.resource_type,
        "Resources": list(event.resources),
        "NotBefore": times.iso(int(event.not_before.timestamp())) if event.not_before else "",
        "Description": event.description,
        "EventSource": str(event.source),
        "DurationInSeconds": -1 if event.duration is None else int(event.duration.total_seconds()),
    }


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(value)
    return tuple(_text(name) for name in value)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(value)
    return value


E = TypeVar("E", bound=StrEnum)


def _known(kind: type[E], value: object) -> E | str:
    text = str(value)
    return next((member for member in kind if member.value.lower() == text.lower()), text)


def _date(value: object) -> datetime | None:
    """Parse a date in either format. An unreadable date counts as missing: any time is possible."""
    try:
        return datetime.fromtimestamp(times.parse_date(str(value or "")), timezone.utc)
    except (Refused, ValueError, OverflowError, OSError):
        return None


def _duration(value: object) -> timedelta | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9:
        return timedelta(seconds=value)
    return None
