"""The document builder compared with a deliberately simple one, over random scopes."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.document import VERSIONS, document
from fairwarning.core.errors import NotFound
from fairwarning.core.model import Event, EventStatus, EventType, Scope, ScopeKind, Source

EVENTS = st.builds(
    Event,
    id=st.uuids().map(lambda uuid: str(uuid).upper()),
    type=st.sampled_from(EventType),
    status=st.sampled_from(EventStatus),
    source=st.sampled_from(Source),
    resources=st.lists(st.text(min_size=1), min_size=1, max_size=4).map(tuple),
    created_at=st.just(0.0),
    not_before=st.integers(min_value=0, max_value=253_402_300_799),
    operation=st.just("op"),
    duration_seconds=st.integers(min_value=-1, max_value=86_400),
    description=st.text(),
)
SCOPES = st.builds(
    Scope,
    id=st.just("s"),
    kind=st.sampled_from(ScopeKind),
    events=st.lists(EVENTS, max_size=5, unique_by=lambda event: event.id).map(
        lambda events: {event.id: event for event in events}
    ),
    incarnation=st.integers(min_value=1),
)


def simple_document(scope: Scope, version: str) -> str:
    """Build the document field by field, without any optimization."""
    events = []
    for event in scope.events.values():
        if event.type == "Preempt" and version < "2017-11-01":
            continue
        if event.type == "Terminate" and version < "2019-01-01":
            continue
        if event.type == "SpotRebalanceRecommendation" and version < "2024-07-09":
            continue
        shown: dict[str, Any] = {}
        shown["EventId"] = event.id
        shown["EventStatus"] = event.status.value
        shown["EventType"] = event.type.value
        shown["ResourceType"] = "VirtualMachine"
        names = list(event.resources)
        if version == "2017-03-01" and scope.kind != "CloudService":
            names = ["_" + name for name in names]
        shown["Resources"] = names
        shown["NotBefore"] = simple_date(event, version)
        if version >= "2019-04-01":
            shown["Description"] = event.description
        if version >= "2019-08-01":
            shown["EventSource"] = event.source.value
        if version >= "2020-07-01":
            shown["DurationInSeconds"] = event.duration_seconds
        events.append(shown)
    body = {"DocumentIncarnation": scope.incarnation, "Events": events}
    return json.dumps(body, separators=(",", ":"))


def simple_date(event: Event, version: str) -> str:
    """Format NotBefore with the standard library."""
    if event.status == "Started":
        return ""
    when = datetime.fromtimestamp(event.not_before, UTC)
    if version == "2017-03-01":
        return when.isoformat().replace("+00:00", "Z")
    return when.strftime(f"%a, %d %b {when.year:04d} %H:%M:%S GMT")


@pytest.mark.spec("M6", "M7", "M8", "M9", "M10")
@given(scope=SCOPES, version=st.sampled_from(list(VERSIONS)))
def test_both_builders_agree(scope: Scope, version: str) -> None:
    """Both implementations give the same bytes for any scope."""
    assert document(scope, version).decode() == simple_document(scope, version)


@pytest.mark.spec("M6")
@pytest.mark.parametrize("version", ["", "latest", "{latest}", "2031-01-01", "2020-07-01 ", "x"])
def test_unknown_versions(version: str) -> None:
    """An unknown version is refused, and the message lists the known ones."""
    scope = Scope(id="s", kind=ScopeKind.STANDALONE, incarnation=1)
    with pytest.raises(NotFound) as refused:
        document(scope, version)
    assert refused.value.code == "UnknownVersion"
    assert "2020-07-01" in refused.value.message
