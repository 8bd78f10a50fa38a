"""Filters of lists, from the query of a request to the API or the page."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeVar

from fairwarning.core.decision import FactType
from fairwarning.core.errors import Refused
from fairwarning.core.model import (
    EventStatus,
    EventType,
    OperationStatus,
    Power,
    RolloutStatus,
    Source,
)
from fairwarning.core.times import parse_date
from fairwarning.service.listing.filters import EventFilter, MachineFilter
from fairwarning.service.listing.journal import JournalFilter

Query = Callable[[str], str]
"""Returns a query parameter; empty if it is missing."""

Choice = TypeVar("Choice", bound=StrEnum)

OVER = "Over"
"""The status of events that have ended; the journal has them."""

_TYPES = ", ".join(EventType)
_STATUSES = ", ".join(EventStatus)

MACHINE_FILTERS: Mapping[str, str] = {
    "scope": "Only of this scope.",
    "set": "Only of this scale set.",
    "power": f"Only with this power state: {', '.join(Power)}.",
    "type": f"Only with an event of this type: {_TYPES}.",
    "status": f"Only with an event of this status: {_STATUSES}.",
    "not_polled": "`true`: only of scopes of which no machine polls.",
    "q": "Only with this text in the name of the machine or its scope.",
}
EVENT_FILTERS: Mapping[str, str] = {
    "scope": "Only of this scope.",
    "set": "Only of this scale set.",
    "machine": "Only of this machine.",
    "type": f"Only of this type: {_TYPES}.",
    "status": f"Only of this status: {_STATUSES}; or {OVER}, newest first, from the journal.",
    "source": f"Only from this source: {', '.join(Source)}.",
    "operation": "Only of this operation.",
    "rollout": "Only of this rollout.",
    "not_polled": "`true`: only of scopes of which no machine polls.",
    "unapproved": "`true`: only scheduled ones that nobody has approved.",
    "since": "Only those that start at this time or later, in ISO 8601.",
    "until": "Only those that start at this time or earlier, in ISO 8601.",
    "within": "Only those that start within this many seconds.",
    "prefix": "Only with an id that begins so.",
    "q": "Only with this text in their id, description, scope or machines.",
}
OPERATION_FILTERS: Mapping[str, str] = {
    "status": f"Only with this status: {', '.join(OperationStatus)}.",
    "machine": "Only with an impact on this machine.",
    "set": "Only on this scale set or its machines; `machine` goes first.",
    "prefix": "Only with an id that begins so, by id.",
}
ROLLOUT_FILTERS: Mapping[str, str] = {
    "status": f"Only with this status: {', '.join(RolloutStatus)}.",
    "prefix": "Only with an id that begins so.",
}
JOURNAL_FILTERS: Mapping[str, str] = {
    "about": "Only about this scope, scale set, machine, operation, rollout or event.",
    "actor": "Only by this actor.",
    "type": f"Only of this type: {', '.join(FactType)}.",
    "since": "Only at this time or later, in ISO 8601.",
    "until": "Only at this time or earlier, in ISO 8601.",
    "q": "Only with this text.",
}
_MAX_DIGITS = 18
_MAX_SECONDS = 10**9 - 1


def whole_number(text: str) -> int | None:
    """Return a whole number of at most 18 digits; None for any other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else None


def machine_filter(query: Query) -> MachineFilter:
    """Return the filter that a query for machines asks for."""
    return MachineFilter(
        scope=query("scope"),
        set=query("set"),
        power=_one_of(Power, query, "power"),
        type=_one_of(EventType, query, "type"),
        status=_one_of(EventStatus, query, "status"),
        not_polled=_flag(query, "not_polled"),
        text=query("q"),
    )


def event_filter(query: Query, now: float) -> EventFilter:
    """Return the filter that a query for events asks for."""
    until: float | None = parse_date(query("until")) if query("until") else None
    if query("within"):
        within = whole_number(query("within"))
        if within is None or within > _MAX_SECONDS:
            raise Refused("BadQuery", "within must be a whole number of seconds")
        until = min(until or now + within, now + within)
    return EventFilter(
        scope=query("scope"),
        set=query("set"),
        machine=query("machine"),
        type=_one_of(EventType, query, "type"),
        status=_one_of(EventStatus, query, "status", OVER),
        source=_one_of(Source, query, "source"),
        operation=query("operation"),
        rollout=query("rollout"),
        not_polled=_flag(query, "not_polled"),
        unapproved=_flag(query, "unapproved"),
        since=parse_date(query("since")) if query("since") else None,
        until=until,
        prefix=query("prefix").upper(),
        text=query("q"),
    )


def journal_filter(query: Query) -> JournalFilter:
    """Return the filter that a query for journal lines asks for."""
    since, until = (parse_date(query(name)) if query(name) else None for name in ("since", "until"))
    if since is not None and until is not None and since > until:
        raise Refused("BadQuery", "since must not be later than until")
    return JournalFilter(
        about=query("about"),
        actor=query("actor"),
        type=_one_of(FactType, query, "type"),
        since=since,
        until=until,
        text=query("q"),
    )


def one_of(kind: type[Choice], query: Query, name: str) -> Choice | None:
    """Return the value of a parameter, in any case; None if it is missing."""
    text = _one_of(kind, query, name)
    return kind(text) if text else None


def _one_of(kind: type[StrEnum], query: Query, name: str, *more: str) -> str:
    """Return the value as it is spelled, whatever its case."""
    text = query(name)
    names = {value.lower(): str(value) for value in (*kind, *more)}
    if text and text.lower() not in names:
        allowed = ", ".join(names.values())
        raise Refused("BadQuery", f"{name} must be one of {allowed}, not {text[:40]!r}")
    return names.get(text.lower(), "")


def _flag(query: Query, name: str) -> bool:
    text = query(name)
    if text not in {"", "true", "false"}:
        raise Refused("BadQuery", f"{name} must be true or false, not {text[:40]!r}")
    return text == "true"
