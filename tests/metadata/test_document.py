"""The document on the wire: paths, fields, spellings and filters (M1, M6 to M10)."""

import json
import re

import pytest

from fairwarning.core.commands import (
    Cancel,
    CreateScope,
    Delete,
    Evict,
    Maintain,
    Operate,
    Recommend,
)
from fairwarning.core.model import Machine, Priority, ScopeKind
from fairwarning.service.config.settings import MetadataSettings
from tests.fixtures.endpoint import EVENTS, EndpointHarness, approval

PREVIEW = "2024-07-09"
VERSIONS = (
    "2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01",
    "2020-07-01", PREVIEW,
)  # fmt: skip
SINCE = {
    "EventId": "2017-03-01",
    "EventStatus": "2017-03-01",
    "EventType": "2017-03-01",
    "ResourceType": "2017-03-01",
    "Resources": "2017-03-01",
    "NotBefore": "2017-03-01",
    "Description": "2019-04-01",
    "EventSource": "2019-08-01",
    "DurationInSeconds": "2020-07-01",
}
EVERY = MetadataSettings(preview=True)


@pytest.mark.spec("M1", "M2")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_document_of_a_scope_with_no_plans(version: str) -> None:
    """Every version answers 200 and JSON without a blank; `Events` is an empty list."""
    with EndpointHarness(EVERY) as endpoint:
        endpoint.make("db")
        answer = endpoint.get("db_0", version)
        assert answer.status == 200
        assert answer.headers["content-type"].split(";")[0] == "application/json"
        assert answer.headers["content-length"] == str(len(answer.body))
        assert answer.body == b'{"DocumentIncarnation":1,"Events":[]}'


@pytest.mark.spec("M1")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_document_is_compact(version: str) -> None:
    """With events in it, too, the bytes are what a compact writer makes of them."""
    with EndpointHarness(EVERY) as endpoint:
        endpoint.make("db", 2)
        endpoint.get("db_0")
        endpoint.restart("db_0")
        endpoint.freeze("db_1")
        answer = endpoint.get("db_0", version)
        assert len(answer.json["Events"]) == 2
        assert answer.body == json.dumps(answer.json, separators=(",", ":")).encode()


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    "path",
    [
        "/metadata/scheduledevents",
        "/metadata/scheduledEvents",
        "/metadata/ScheduledEvents/",
        "/METADATA/SCHEDULEDEVENTS",
        "/metadata/scheduledevents/",
    ],
)
def test_the_path_forgives(path: str) -> None:
    """Capital letters and a trailing slash make no difference, for GET and for POST."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        target = f"{path}?api-version=2020-07-01"
        answer = endpoint.send_from("db_0", "GET", target, {"Metadata": "true"})
        assert (answer.status, answer.json["Events"]) == (200, [])
        body = approval(endpoint.restart("db_0").id)
        assert endpoint.send_from("db_0", "POST", target, {"Metadata": "true"}, body).status == 200


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    "query",
    [
        "api-version=2020-07-01&format=json",
        "api-version=2020-07-01&format=text",
        "extended=true&api-version=2020-07-01",
        "api-version=2020-07-01&bare",
        "api-version=2020-07-01&a=1&b=%26c%3D2&empty=",
        "api-version=2020%2D07%2D01",
    ],
)
def test_parameters_we_do_not_know_are_ignored(query: str) -> None:
    """Whatever else a query holds, the document is the same, and JSON."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        answer = endpoint.send_from("db_0", "GET", f"{EVENTS}?{query}", {"Metadata": "true"})
        assert (answer.status, answer.json) == (200, {"DocumentIncarnation": 1, "Events": []})
        assert answer.headers["content-type"] == endpoint.get("db_0").headers["content-type"]


@pytest.mark.spec("M6")
@pytest.mark.parametrize("version", VERSIONS)
def test_fields_stand_in_one_order(version: str) -> None:
    """A version shows the fields it brought and those before, in the order they came."""
    with EndpointHarness(EVERY) as endpoint:
        endpoint.make("db", 2)
        endpoint.get("db_0")
        endpoint.restart("db_0")
        endpoint.do(Maintain(scope="db", operation="f", machines=("db_1",), duration_seconds=30))
        answer = endpoint.get("db_1", version)
        assert list(answer.json) == ["DocumentIncarnation", "Events"]
        reboot, freeze = answer.json["Events"]
        for event in (reboot, freeze):
            assert list(event) == [name for name, since in SINCE.items() if since <= version]
            assert re.fullmatch("[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", event["EventId"])
            assert (event["EventStatus"], event["ResourceType"]) == ("Scheduled", "VirtualMachine")
        assert (reboot["EventType"], freeze["EventType"]) == ("Reboot", "Freeze")
        assert [event.get("EventSource") for event in (reboot, freeze)] == (
            ["User", "Platform"] if version >= "2019-08-01" else [None, None]
        )
        assert [event.get("DurationInSeconds") for event in (reboot, freeze)] == (
            [-1, 30] if version >= "2020-07-01" else [None, None]
        )


@pytest.mark.spec("M7")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ScopeKind.STANDALONE, "gw"),
        (ScopeKind.AVAILABILITY_SET, "gw"),
        (ScopeKind.CLOUD_SERVICE, "Worker_IN_0"),
    ],
)
def test_underscores_of_the_preview(version: str, kind: ScopeKind, name: str) -> None:
    """Only on 2017-03-01, and only for IaaS machines, a name carries a leading underscore."""
    with EndpointHarness(EVERY) as endpoint:
        endpoint.create(CreateScope(scope="s", kind=kind, machines=(Machine(name=name),)))
        endpoint.get(name)
        endpoint.restart(name)
        (event,) = endpoint.get(name, version).json["Events"]
        underscore = version == "2017-03-01" and kind is not ScopeKind.CLOUD_SERVICE
        assert event["Resources"] == [f"_{name}" if underscore else name]


@pytest.mark.spec("M8")
@pytest.mark.parametrize("version", VERSIONS)
def test_dates(version: str) -> None:
    """ISO 8601 on 2017-03-01, RFC 1123 in GMT from 2017-08-01, the empty string once Started."""
    with EndpointHarness(EVERY) as endpoint:
        endpoint.make("db")
        endpoint.get("db_0")
        event = endpoint.restart("db_0")
        (shown,) = endpoint.get("db_0", version).json["Events"]
        if version == "2017-03-01":
            assert shown["NotBefore"] == "2026-01-09T12:15:00Z"
        else:
            assert shown["NotBefore"] == "Fri, 09 Jan 2026 12:15:00 GMT"
        endpoint.approve("db_0", event.id)
        (shown,) = endpoint.get("db_0", version).json["Events"]
        assert (shown["EventStatus"], shown["NotBefore"]) == ("Started", "")


TYPES_SINCE = {
    "Freeze": "2017-03-01",
    "Preempt": "2017-11-01",
    "Terminate": "2019-01-01",
    "SpotRebalanceRecommendation": PREVIEW,
}


def _one_of_each(endpoint: EndpointHarness) -> None:
    spot, leaving = Priority.SPOT, 300
    machines = (
        Machine(name="host"),
        Machine(name="cheap", priority=spot),
        Machine(name="cheaper", priority=spot),
        Machine(name="leaver", terminate_seconds=leaving),
    )
    endpoint.create(CreateScope(scope="s", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    endpoint.get("host")
    plans: list[tuple[type[Operate], str]] = [
        (Maintain, "host"),
        (Evict, "cheap"),
        (Delete, "leaver"),
        (Recommend, "cheaper"),
    ]
    for action, machine in plans:
        endpoint.do(action(scope="s", operation=machine, machines=(machine,)))


@pytest.mark.spec("M9", "M11")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_is_a_filter(version: str) -> None:
    """It hides the types that came after it; the incarnation is the scope's all the same."""
    with EndpointHarness(EVERY) as endpoint:
        _one_of_each(endpoint)
        answer = endpoint.get("cheap", version)
        shown = {event["EventType"] for event in answer.json["Events"]}
        assert shown == {name for name, since in TYPES_SINCE.items() if since <= version}
        assert answer.json["DocumentIncarnation"] == 5
        assert answer.headers["etag"] == '"5"'


@pytest.mark.spec("M10")
def test_scheduled_then_started_then_gone() -> None:
    """An event is shown as Scheduled, then as Started under the same id, then not at all."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.get("db_0")
        event = endpoint.restart("db_0")
        seen = []
        for seconds in (0, 15 * 60, 60):
            endpoint.advance(seconds)
            events = endpoint.get("db_0").json["Events"]
            seen.append([(shown["EventId"], shown["EventStatus"]) for shown in events])
        assert seen == [[(event.id, "Scheduled")], [(event.id, "Started")], []]


@pytest.mark.spec("M10")
def test_a_cancelled_event_is_gone() -> None:
    """Nothing tells of it but that it is no longer there."""
    with EndpointHarness() as endpoint:
        endpoint.make("db", 2)
        endpoint.get("db_0")
        kept, cancelled = endpoint.restart("db_0"), endpoint.restart("db_1")
        endpoint.do(Cancel(scope="db", event=cancelled.id))
        answer = endpoint.get("db_1")
        assert [shown["EventId"] for shown in answer.json["Events"]] == [kept.id]
        assert cancelled.id.encode() not in answer.body
