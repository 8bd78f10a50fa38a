"""The document of a scope at an api-version, as bytes (M6 to M11)."""

import json

from fairwarning.core.errors import NotFound
from fairwarning.core.model import Event, EventStatus, EventType, Scope, ScopeKind
from fairwarning.core.record import short_record
from fairwarning.core.times import iso, rfc1123

_FIRST = frozenset({EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY})
_PREEMPT = _FIRST | {EventType.PREEMPT}
_TERMINATE = _PREEMPT | {EventType.TERMINATE}


@short_record
class ApiVersionFilter:
    """What one api-version shows: a filter on fields and event types (M9, ID5)."""

    types: frozenset[EventType]
    description: bool = False
    source: bool = False
    duration: bool = False
    preview: bool = False  # 2017-03-01: ISO dates, names with a leading underscore (M7, M8)


VERSIONS: dict[str, ApiVersionFilter] = {
    "2017-03-01": ApiVersionFilter(_FIRST, preview=True),
    "2017-08-01": ApiVersionFilter(_FIRST),
    "2017-11-01": ApiVersionFilter(_PREEMPT),
    "2019-01-01": ApiVersionFilter(_TERMINATE),
    "2019-04-01": ApiVersionFilter(_TERMINATE, description=True),
    "2019-08-01": ApiVersionFilter(_TERMINATE, description=True, source=True),
    "2020-07-01": ApiVersionFilter(_TERMINATE, description=True, source=True, duration=True),
    "2024-07-09": ApiVersionFilter(
        frozenset(EventType), description=True, source=True, duration=True
    ),
}


def visible(scope: Scope, api_version: str) -> list[Event]:
    """The scope's events that this version shows (M9)."""
    types = _view(api_version).types
    return [event for event in scope.events.values() if event.type in types]


def document(scope: Scope, api_version: str) -> bytes:
    """The scope's document: compact JSON, fields in the order the real service sends them."""
    view = _view(api_version)
    underscore = view.preview and scope.kind is not ScopeKind.CLOUD_SERVICE
    prefix = "_" if underscore else ""
    events = [_event(event, view, prefix) for event in visible(scope, api_version)]
    body = {"DocumentIncarnation": scope.incarnation, "Events": events}
    return json.dumps(body, separators=(",", ":")).encode()


def _view(api_version: str) -> ApiVersionFilter:
    view = VERSIONS.get(api_version)
    if view is None:
        known = ", ".join(VERSIONS)
        raise NotFound("UnknownVersion", f"no api-version {api_version!r}; known: {known}")
    return view


def _event(event: Event, view: ApiVersionFilter, prefix: str) -> dict[str, object]:
    date = iso if view.preview else rfc1123
    started = event.status is EventStatus.STARTED
    shown: dict[str, object] = {
        "EventId": event.id,
        "EventStatus": event.status,
        "EventType": event.type,
        "ResourceType": "VirtualMachine",
        "Resources": [prefix + name for name in event.resources],
        "NotBefore": "" if started else date(event.published_not_before),
    }
    if view.description:
        shown["Description"] = event.description
    if view.source:
        shown["EventSource"] = event.source
    if view.duration:
        shown["DurationInSeconds"] = event.duration_seconds
    return shown
