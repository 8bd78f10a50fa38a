"""Wrong paths, methods, sizes and rates (M17)."""

import json

import pytest

from fairwarning.service.config.settings import MetadataSettings
from tests.fixtures.endpoint import EVENTS, EndpointHarness, approval, poll, raw_request, read_all
from tests.fixtures.http import send

pytestmark = pytest.mark.spec("M17")

POLL = f"{EVENTS}?api-version=2020-07-01"
INSTANCE = "/metadata/instance?api-version=2021-02-01"
LIMITED = MetadataSettings(requests_per_second=5)
KIB = 1024


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/metadata",
        "/metadata/",
        "/metadata/scheduledevent",
        "/metadata/scheduledevents2",
        "/metadata/scheduledevents//",
        "/metadata/scheduledevents/x",
        "//metadata/scheduledevents",
        "/metadata/./scheduledevents",
        "/metadata/x/../scheduledevents",
        "/metadata%2Fscheduledevents",
        "/metadata/scheduled%65vents",
        "/metadata/latest/scheduledevents",
        "/metadata/instances",
        "/metadata/versions/1",
        "/metadata/identity/oauth2/token",
        "/favicon.ico",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_wrong_path(endpoint: EndpointHarness, path: str, method: str) -> None:
    """404 with a text that lists the valid paths, for every method; a path is taken literally."""
    endpoint.make("db")
    target = f"{path}?api-version=2020-07-01"
    response = endpoint.send_from("db_0", method, target, {"Metadata": "true"})
    assert response.status == 404
    assert EVENTS in response.error
    assert not endpoint.scope("db").enabled


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize(
    ("target", "allowed"),
    [(POLL, {"GET", "POST"}), (INSTANCE, {"GET"}), ("/metadata/versions", {"GET"})],
)
def test_a_wrong_method(
    endpoint: EndpointHarness, method: str, target: str, allowed: set[str]
) -> None:
    """405; `Allow` lists the allowed methods."""
    endpoint.make("db")
    response = endpoint.send_from("db_0", method, target, {"Metadata": "true"})
    assert response.status == 405
    assert set(response.headers["allow"].replace(" ", "").split(",")) == allowed
    assert method in response.error


@pytest.mark.parametrize("target", [INSTANCE, "/metadata/versions"])
def test_read_only_resources(endpoint: EndpointHarness, target: str) -> None:
    """POST is for approvals only."""
    endpoint.make("db")
    response = endpoint.send_from("db_0", "POST", target, {"Metadata": "true"}, "{}")
    assert (response.status, response.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("expect", [True, False])
def test_content_length_above_the_limit(endpoint: EndpointHarness, expect: bool) -> None:
    """413 as soon as the length is known; the client need not send the body first."""
    endpoint.make("db")
    headers = ["Expect: 100-continue"] if expect else []
    head = raw_request(POLL, f"Content-Length: {64 * KIB + 1}", *headers, method="POST")
    with endpoint.open("db_0") as client:
        client.sendall(head)
        response = read_all(client)
    assert response.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nConnection: close\r\n" in response
    assert "error" in json.loads(response.partition(b"\r\n\r\n")[2])


def test_chunked_body_above_the_limit(endpoint: EndpointHarness) -> None:
    """413 as well, if the body comes in chunks without a length."""
    endpoint.make("db")
    head = raw_request(POLL, "Transfer-Encoding: chunked", method="POST")
    chunk = b"%x\r\n%s\r\n" % (32 * KIB, b" " * 32 * KIB)
    with endpoint.open("db_0") as client:
        client.sendall(head + chunk + chunk)
        client.sendall(b"1\r\n \r\n")
        assert read_all(client).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("size", [64 * KIB + 1, 200 * KIB, 4 * 1024 * KIB])
def test_client_that_sends_it_all_reads_the_refusal(endpoint: EndpointHarness, size: int) -> None:
    """A client that sends the whole body before reading, as most do, gets the 413 and no reset."""
    endpoint.make("db")
    for _ in range(5):
        response = endpoint.send_from("db_0", "POST", POLL, {"Metadata": "true"}, b" " * size)
        assert response.status == 413
        assert response.error


def test_a_body_at_the_limit(endpoint: EndpointHarness) -> None:
    """64 KiB are read and processed."""
    endpoint.make("db")
    endpoint.get("db_0")
    body = approval(endpoint.restart("db_0").id)
    response = endpoint.send_from("db_0", "POST", POLL, {"Metadata": "true"}, body.ljust(64 * KIB))
    assert response.status == 200


def test_no_rate_limit_by_default(endpoint: EndpointHarness) -> None:
    """A local run does not limit requests."""
    endpoint.make("db")
    connection = endpoint.client("db_0")
    assert {poll(connection).status for _ in range(200)} == {200}


def _statuses(endpoint: EndpointHarness, machine: str, times: int) -> list[int]:
    connection = endpoint.client(machine)
    return [poll(connection).status for _ in range(times)]


def test_a_burst_then_the_rate() -> None:
    """Ten at once, then five more each second, up to ten; further requests get 429."""
    with EndpointHarness(LIMITED) as endpoint:
        endpoint.stop_ticking()
        endpoint.make("db")
        assert _statuses(endpoint, "db_0", 12) == [200] * 10 + [429] * 2
        for _ in range(3):
            endpoint.tick()
            assert _statuses(endpoint, "db_0", 7) == [200] * 5 + [429] * 2
        endpoint.tick(60)
        assert _statuses(endpoint, "db_0", 12) == [200] * 10 + [429] * 2


def test_response_of_the_rate_limit() -> None:
    """429 with `Retry-After` in whole seconds and a text; the connection stays open."""
    with EndpointHarness(LIMITED) as endpoint:
        endpoint.stop_ticking()
        endpoint.make("db")
        _statuses(endpoint, "db_0", 10)
        connection = endpoint.client("db_0")
        for _ in range(2):
            response = poll(connection)
            assert response.status == 429
            assert int(response.headers["retry-after"]) >= 1
            assert response.error
        endpoint.tick(int(response.headers["retry-after"]))
        assert poll(connection).status == 200


def test_once_a_second_always_passes() -> None:
    """Polling once a second, as documented, always works, on one connection or on many."""
    with EndpointHarness(LIMITED) as endpoint:
        endpoint.stop_ticking()
        endpoint.make("db")
        connection = endpoint.client("db_0")
        for _ in range(60):
            assert poll(connection).status == 200
            assert endpoint.get("db_0").status == 200
            endpoint.tick()


def test_each_machine_has_its_own_rate_limit() -> None:
    """A busy machine, even of the same scope, takes nothing from others."""
    with EndpointHarness(LIMITED) as endpoint:
        endpoint.stop_ticking()
        endpoint.make("db", 2)
        assert _statuses(endpoint, "db_0", 20)[-1] == 429
        assert _statuses(endpoint, "db_1", 10) == [200] * 10


def test_all_of_a_machines_requests_count() -> None:
    """Polls, 304 responses, approvals and instance metadata count, on any number of connections."""
    with EndpointHarness(LIMITED) as endpoint:
        endpoint.stop_ticking()
        endpoint.make("db")
        for _ in range(2):
            assert endpoint.get("db_0").status == 200
            assert endpoint.get("db_0", **{"If-None-Match": '"1"'}).status == 304
            assert endpoint.send_from("db_0", "GET", INSTANCE, {"Metadata": "true"}).status == 200
            assert endpoint.approve("db_0", "x").status == 400
        event = endpoint.restart("db_0")
        assert endpoint.approve("db_0", event.id).status == 200
        assert endpoint.get("db_0").status == 200
        for method, target in (("GET", POLL), ("GET", INSTANCE), ("POST", POLL)):
            body = "{}" if method == "POST" else None
            response = endpoint.send_from("db_0", method, target, {"Metadata": "true"}, body)
            assert response.status == 429


def test_the_document_after_a_rate_limit() -> None:
    """A client that was limited reads the current document with its next allowed request."""
    with EndpointHarness(LIMITED) as endpoint:
        endpoint.stop_ticking()
        endpoint.make("db")
        _statuses(endpoint, "db_0", 11)
        event = endpoint.restart("db_0")
        connection = endpoint.client("db_0")
        assert poll(connection).status == 429
        endpoint.tick()
        response = send(connection, "GET", POLL, {"Metadata": "true"})
        assert [shown["EventId"] for shown in response.json["Events"]] == [event.id]
