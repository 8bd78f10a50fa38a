"""The document on the wire: paths, parameters, versions, incarnations and the request cache."""

from collections.abc import Iterator

import pytest

from fairwarning.core.commands import (
    CreateScope,
    Degrade,
    Delete,
    Evict,
    Maintain,
    Operate,
    Recommend,
)
from fairwarning.core.document import document
from fairwarning.core.model import Machine, Priority, ScopeKind
from fairwarning.metadata.reader import CACHE_REQUESTS
from fairwarning.service.config.settings import MetadataSettings
from tests.fixtures.endpoint import EVENTS, POLL_TARGET, EndpointHarness, approval, raw_request
from tests.metadata.conftest import EMPTY, METADATA, NAME, VERSIONS

PREVIEW = "2024-07-09"
PLANS: dict[str, type[Operate]] = {
    "host": Maintain,
    "cheap": Evict,
    "leaver": Delete,
    "cheaper": Recommend,
}


@pytest.fixture
def endpoint() -> Iterator[EndpointHarness]:
    """Yield an endpoint that knows every version."""
    with EndpointHarness(MetadataSettings(preview=True)) as endpoint:
        yield endpoint


def _one_of_each(endpoint: EndpointHarness) -> None:
    """Announce an event of each type, one of which has started."""
    for machine, action in PLANS.items():
        endpoint.do(action(scope="s", operation=machine, machines=(machine,)))
    endpoint.approve("host", next(iter(endpoint.scope("s").events)))


@pytest.mark.spec("M1", "M2", "M6", "M7", "M8", "M9", "M11")
@pytest.mark.parametrize("version", [*VERSIONS, PREVIEW])
def test_each_version_has_its_document(endpoint: EndpointHarness, version: str) -> None:
    """That of `tests/core/test_document.py`; the incarnation is the scope's in every version."""
    machines = (
        Machine(name="host"),
        Machine(name="cheap", priority=Priority.SPOT),
        Machine(name="cheaper", priority=Priority.SPOT),
        Machine(name="leaver", terminate_seconds=300),
    )
    endpoint.create(CreateScope(scope="s", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    assert endpoint.get("cheap", version).body == EMPTY
    _one_of_each(endpoint)
    response = endpoint.get("cheap", version)
    assert (response.status, response.headers["etag"]) == (200, '"6"')
    assert response.headers["content-type"].split(";")[0] == "application/json"
    assert response.headers["content-length"] == str(len(response.body))
    assert response.body == document(endpoint.scope("s"), version)


@pytest.mark.spec("M1")
@pytest.mark.parametrize("path", ["scheduledEvents", "ScheduledEvents/", "SCHEDULEDEVENTS"])
def test_path_ignores_case_and_trailing_slash(endpoint: EndpointHarness, path: str) -> None:
    """Upper case and a trailing slash make no difference, for GET and for POST."""
    endpoint.make("db")
    target = f"/METADATA/{path}?api-version=2020-07-01"
    assert endpoint.send_from("db_0", "GET", target, METADATA).body == EMPTY
    body = approval(endpoint.restart("db_0").id)
    assert endpoint.send_from("db_0", "POST", target, METADATA, body).status == 200


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    "target",
    [
        f"{POLL_TARGET}&format=json",
        f"{POLL_TARGET}&format=text",
        f"{EVENTS}?extended=true&api-version=2020-07-01",
        f"{POLL_TARGET}&bare",
        f"{POLL_TARGET}&a=1&b=%26c%3D2&empty=",
        f"{EVENTS}?api-version=2020%2D07%2D01",
    ],
)
def test_unknown_parameters_are_ignored(endpoint: EndpointHarness, target: str) -> None:
    """Other query parameters change neither the document nor its type."""
    endpoint.make("db")
    response = endpoint.send_from("db_0", "GET", target, METADATA)
    assert (response.status, response.body) == (200, EMPTY)
    assert response.headers["content-type"] == endpoint.get("db_0").headers["content-type"]


DAY = 24 * 3600
KNOWN = "If-None-Match"


@pytest.mark.spec("M11")
def test_machines_of_a_scope_share_the_incarnation(endpoint: EndpointHarness) -> None:
    """Two machines of a scope read the same bytes; another scope has its own count."""
    endpoint.make("db", 2)
    endpoint.make("web")
    endpoint.get("db_0"), endpoint.get("web_0")
    endpoint.restart("db_0")
    shown = [endpoint.get(machine) for machine in ("db_0", "db_1", "web_0")]
    assert shown[0].body == shown[1].body
    assert [response.headers["etag"] for response in shown] == ['"2"', '"2"', '"1"']
    assert [response.json["DocumentIncarnation"] for response in shown] == [2, 2, 1]


KNOWN_TAGS = ['"2"', "2", 'W/"2"', '"1", "2"', "1,2", '"9",W/"2","4"', "*", ' "2"  ']
OTHER_TAGS = ["0", '"0"', '"1"', '"22"', '"1", "3"', "", '""', "two", '"2"3', "2 3", '"*"', "-2"]


@pytest.mark.spec("M11")
@pytest.mark.parametrize("tags", [*KNOWN_TAGS, *OTHER_TAGS])
def test_a_known_incarnation_gets_304(endpoint: EndpointHarness, tags: str) -> None:
    """Quoted or bare, weak or strong, alone or in a list; an older or unreadable tag gets 200."""
    endpoint.make("db")
    endpoint.get("db_0")
    endpoint.restart("db_0")
    response = endpoint.get("db_0", **{KNOWN: tags})
    assert response.headers["etag"] == '"2"'
    if tags in KNOWN_TAGS:
        assert (response.status, response.body) == (304, b"")
        assert "content-type" not in response.headers
    else:
        assert (response.status, response.json["DocumentIncarnation"]) == (200, 2)


@pytest.mark.spec("M11")
def test_approvals_ignore_if_none_match(endpoint: EndpointHarness) -> None:
    """A POST with If-None-Match, as Microsoft's Node sample sends it, is a normal approval."""
    endpoint.make("db")
    endpoint.get("db_0")
    body = approval(endpoint.restart("db_0").id)
    headers = {"Metadata": "true", KNOWN: '"2"'}
    assert endpoint.send_from("db_0", "POST", POLL_TARGET, headers, body).status == 200
    assert endpoint.get("db_0").json["Events"][0]["EventStatus"] == "Started"


@pytest.mark.spec("M11")
def test_incarnation_from_before_disabling_is_unknown(endpoint: EndpointHarness) -> None:
    """A machine that kept "1" through days of silence must not miss the content of the new 1."""
    endpoint.make("db", 2)
    kept = {KNOWN: endpoint.get("db_0").headers["etag"]}
    endpoint.get("db_1")
    week_ahead = int(endpoint.clock.now()) + 7 * DAY
    endpoint.do(Degrade(scope="db", operation="op", machines=("db_1",), not_before=week_ahead))
    endpoint.advance(3 * DAY)
    for machine in ("db_0", "db_1"):
        response = endpoint.get(machine, **kept)
        assert (response.status, response.json["DocumentIncarnation"]) == (200, 1)
        assert len(response.json["Events"]) == 1
        assert endpoint.get(machine, **kept).status == 304


def _send(endpoint: EndpointHarness, machine: str, *sent: bytes) -> list[bytes]:
    """Send requests on one connection, each after the previous response; return the responses."""
    responses = []
    with endpoint.open(machine) as client:
        for request in sent:
            client.sendall(request)
            responses.append(client.recv(65536))
    return responses


def _cached_requests(endpoint: EndpointHarness) -> int:
    return endpoint.call(lambda: len(endpoint.server.request_cache.requests))


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    "sent",
    [
        raw_request(POLL_TARGET),
        raw_request(f"{EVENTS}?api-version=2017-03-01"),
        raw_request(POLL_TARGET, "Connection: keep-alive", "User-Agent: x"),
        raw_request(POLL_TARGET, 'If-None-Match: "2"'),
        raw_request(POLL_TARGET, 'If-None-Match: "1"'),
        raw_request(NAME),
        raw_request("/metadata/versions"),
    ],
)
def test_cached_response_equals_the_first(endpoint: EndpointHarness, sent: bytes) -> None:
    """Responses are identical byte for byte, on the same connection and on another."""
    endpoint.make("db")
    endpoint.get("db_0")
    endpoint.restart("db_0")
    before = _cached_requests(endpoint)
    responses = _send(endpoint, "db_0", sent, sent, sent) + _send(endpoint, "db_0", sent)
    assert _cached_requests(endpoint) == before + 1
    assert len(set(responses)) == 1


@pytest.mark.spec("M1", "M16")
def test_cache_is_bounded(endpoint: EndpointHarness) -> None:
    """The cache has a limit; responses stay correct once it is full."""
    endpoint.make("db")
    endpoint.make("web")
    endpoint.get("db_0"), endpoint.get("web_0")
    event = endpoint.restart("db_0").id.encode()
    many = [raw_request(f"{POLL_TARGET}&n={n}") for n in range(CACHE_REQUESTS + 50)]
    responses = _send(endpoint, "db_0", *many, *many[:10], *many[-10:])
    assert 0 < _cached_requests(endpoint) <= CACHE_REQUESTS == 1024
    assert len(set(responses)) == 1
    assert event in responses[0]
    assert b'"Events":[]' in _send(endpoint, "web_0", many[-1])[0]
