"""What a machine reads: the document of scheduled events, at any api-version (G1).

What we know of tomorrow's events is that they will hold more: a type, status or source that is not
known here stays the string it was, and further members are passed over.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from fairwarning.core import times
from fairwarning.core.errors import FairwarningError, Refused


class EventType(StrEnum):
    """What is going to happen."""

    FREEZE = "Freeze"
    REBOOT = "Reboot"
    REDEPLOY = "Redeploy"
    PREEMPT = "Preempt"
    TERMINATE = "Terminate"
    SPOT_REBALANCE = "SpotRebalanceRecommendation"


class EventStatus(StrEnum):
    """How far it is; an event that is over is simply gone."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"


class EventSource(StrEnum):
    """Who wanted it."""

    PLATFORM = "Platform"
    USER = "User"


class Unreadable(FairwarningError):
    """What the endpoint answered is no document. It says nothing about events (IG5)."""


def plain(name: str) -> str:
    """A machine's name as it is compared: case does not count, nor 2017's leading underscore."""
    return name.lower().lstrip("_")


@dataclass(frozen=True, slots=True)
class Event:
    """Notice that something is going to happen to machines."""

    id: str
    type: EventType | str
    status: EventStatus | str
    resources: tuple[str, ...]
    not_before: datetime | None = None  # in UTC; None once it has started, or if nothing was said
    source: EventSource | str = ""  # empty before api-version 2019-08-01
    duration: timedelta | None = None  # of the interruption, where it is known
    description: str = ""
    resource_type: str = "VirtualMachine"

    @property
    def started(self) -> bool:
        """Whether it has begun."""
        return self.status == EventStatus.STARTED

    def concerns(self, name: str) -> bool:
        """Whether this machine is hit."""
        return plain(name) in map(plain, self.resources)

    def seconds_left(self, now: datetime) -> float:
        """Until it may begin; nothing is left of what has begun or did not say when it will."""
        if self.started or self.not_before is None:
            return 0.0
        return max(0.0, (self.not_before - now).total_seconds())


@dataclass(frozen=True, slots=True)
class Document:
    """All that is planned, as of one reading."""

    incarnation: int = 0
    events: tuple[Event, ...] = ()

    def find(self, event: str) -> Event | None:
        """The event of this id."""
        return next((one for one in self.events if one.id.upper() == event.upper()), None)


_NO_DOCUMENT = (
    ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip


def read(body: bytes) -> Document:
    """The document that an endpoint sent; anything else is `Unreadable`."""
    try:
        raw = json.loads(body)
        if not isinstance(raw["Events"], list):
            raise TypeError(raw["Events"])
        events = tuple(from_json(one) for one in raw["Events"])
        return Document(int(raw["DocumentIncarnation"]), events)
    except _NO_DOCUMENT as error:
        shown = body[:80].decode("utf-8", "replace")
        text = f"the endpoint's answer is no document of scheduled events: {shown!r}"
        raise Unreadable("Unreadable", text) from error


def from_json(raw: dict[str, Any]) -> Event:
    """An event as the endpoint writes it, or as `to_json` does."""
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
    """An event with the endpoint's own names, whatever version it was read at."""
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
    return next((one for one in kind if one.value.lower() == text.lower()), text)


def _date(value: object) -> datetime | None:
    """A date in either spelling. One that cannot be read is as good as none: it may be any time."""
    try:
        return datetime.fromtimestamp(times.parse_date(str(value or "")), UTC)
    except (Refused, ValueError, OverflowError, OSError):
        return None


def _duration(value: object) -> timedelta | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9:
        return timedelta(seconds=value)
    return None
