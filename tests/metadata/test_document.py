"""The document on the wire: paths, fields, formats and filters (M1, M6 to M10)."""

import json
import re
from collections.abc import Iterator

import pytest

from fairwarning.core.commands import (
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


@pytest.fixture
def endpoint() -> Iterator[EndpointHarness]:
    """Yield an endpoint that knows every version."""
    with EndpointHarness(MetadataSettings(preview=True)) as endpoint:
        yield endpoint


@pytest.mark.spec("M1", "M2")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_document_is_compact(endpoint: EndpointHarness, version: str) -> None:
    """Every version responds 200 with compact JSON; without events, `Events` is an empty list."""
    endpoint.make("db", 2)
    response = endpoint.get("db_0", version)
    assert response.status == 200
    assert response.headers["content-type"].split(";")[0] == "application/json"
    assert response.headers["content-length"] == str(len(response.body))
    assert response.body == b'{"DocumentIncarnation":1,"Events":[]}'
    endpoint.restart("db_0")
    endpoint.freeze("db_1")
    response = endpoint.get("db_0", version)
    assert len(response.json["Events"]) == 2
    assert response.body == json.dumps(response.json, separators=(",", ":")).encode()


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
def test_path_ignores_case_and_trailing_slash(endpoint: EndpointHarness, path: str) -> None:
    """Upper case and a trailing slash make no difference, for GET and for POST."""
    endpoint.make("db")
    target = f"{path}?api-version=2020-07-01"
    response = endpoint.send_from("db_0", "GET", target, {"Metadata": "true"})
    assert (response.status, response.json["Events"]) == (200, [])
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
def test_unknown_parameters_are_ignored(endpoint: EndpointHarness, query: str) -> None:
    """Other query parameters change neither the document nor its type."""
    endpoint.make("db")
    response = endpoint.send_from("db_0", "GET", f"{EVENTS}?{query}", {"Metadata": "true"})
    assert (response.status, response.json) == (200, {"DocumentIncarnation": 1, "Events": []})
    assert response.headers["content-type"] == endpoint.get("db_0").headers["content-type"]


@pytest.mark.spec("M6")
@pytest.mark.parametrize("version", VERSIONS)
def test_field_order(endpoint: EndpointHarness, version: str) -> None:
    """A version shows its own fields after those of earlier versions, in order of introduction."""
    endpoint.make("db", 2)
    endpoint.get("db_0")
    endpoint.restart("db_0")
    endpoint.do(Maintain(scope="db", operation="f", machines=("db_1",), duration_seconds=30))
    response = endpoint.get("db_1", version)
    assert list(response.json) == ["DocumentIncarnation", "Events"]
    reboot, freeze = response.json["Events"]
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
def test_underscores_of_the_first_version(
    endpoint: EndpointHarness, version: str, kind: ScopeKind, name: str
) -> None:
    """Only on 2017-03-01, and only for IaaS machines, a name has a leading underscore."""
    endpoint.create(CreateScope(scope="s", kind=kind, machines=(Machine(name=name),)))
    endpoint.get(name)
    endpoint.restart(name)
    (event,) = endpoint.get(name, version).json["Events"]
    underscore = version == "2017-03-01" and kind is not ScopeKind.CLOUD_SERVICE
    assert event["Resources"] == [f"_{name}" if underscore else name]


@pytest.mark.spec("M8")
@pytest.mark.parametrize("version", VERSIONS)
def test_dates(endpoint: EndpointHarness, version: str) -> None:
    """ISO 8601 on 2017-03-01, RFC 1123 in GMT from 2017-08-01, the empty string once Started."""
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
def test_a_version_hides_later_event_types(endpoint: EndpointHarness, version: str) -> None:
    """It hides event types introduced later; the incarnation is still that of the scope."""
    _one_of_each(endpoint)
    response = endpoint.get("cheap", version)
    shown = {event["EventType"] for event in response.json["Events"]}
    assert shown == {name for name, since in TYPES_SINCE.items() if since <= version}
    assert response.json["DocumentIncarnation"] == 5
    assert response.headers["etag"] == '"5"'
