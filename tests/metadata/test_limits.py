"""Wrong paths, verbs, sizes and rates (M17)."""

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
def test_a_wrong_path(path: str, method: str) -> None:
    """404 with a text that names the right ones, whatever the verb; a path is taken literally."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        target = f"{path}?api-version=2020-07-01"
        answer = endpoint.send_from("db_0", method, target, {"Metadata": "true"})
        assert answer.status == 404
        assert EVENTS in answer.error
        assert not endpoint.scope("db").enabled


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize(
    ("target", "allowed"),
    [(POLL, {"GET", "POST"}), (INSTANCE, {"GET"}), ("/metadata/versions", {"GET"})],
)
def test_a_wrong_verb(method: str, target: str, allowed: set[str]) -> None:
    """405; `Allow` lists the verbs that may be used."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        answer = endpoint.send_from("db_0", method, target, {"Metadata": "true"})
        assert answer.status == 405
        assert set(answer.headers["allow"].replace(" ", "").split(",")) == allowed
        assert method in answer.error


@pytest.mark.parametrize("target", [INSTANCE, "/metadata/versions"])
def test_what_can_only_be_read(target: str) -> None:
    """POST is for approvals alone."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        answer = endpoint.send_from("db_0", "POST", target, {"Metadata": "true"}, "{}")
        assert (answer.status, answer.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("expect", [True, False])
def test_a_body_that_says_it_is_too_long(expect: bool) -> None:
    """413 as soon as the length is known: nobody has to send the body first."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        headers = ["Expect: 100-continue"] if expect else []
        head = raw_request(POLL, f"Content-Length: {64 * KIB + 1}", *headers, method="POST")
        with endpoint.open("db_0") as client:
            client.sendall(head)
            answer = read_all(client)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"\r\nConnection: close\r\n" in answer
        assert "error" in json.loads(answer.partition(b"\r\n\r\n")[2])


def test_a_body_that_turns_out_too_long() -> None:
    """413 as well, if it comes in chunks and no length was given."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        head = raw_request(POLL, "Transfer-Encoding: chunked", method="POST")
        chunk = b"%x\r\n%s\r\n" % (32 * KIB, b" " * 32 * KIB)
        with endpoint.open("db_0") as client:
            client.sendall(head + chunk + chunk)
            client.sendall(b"1\r\n \r\n")
            assert read_all(client).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("size", [64 * KIB + 1, 200 * KIB, 4 * 1024 * KIB])
def test_a_client_that_sends_it_all_reads_the_refusal(size: int) -> None:
    """Who sends the whole body before reading, as most do, gets the 413 and no reset."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        for _ in range(5):
            answer = endpoint.send_from("db_0", "POST", POLL, {"Metadata": "true"}, b" " * size)
            assert answer.status == 413
            assert answer.error


def test_a_body_just_long_enough() -> None:
    """64 KiB are read, and judged by what they say."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.get("db_0")
        body = approval(endpoint.restart("db_0").id)
        answer = endpoint.send_from(
            "db_0", "POST", POLL, {"Metadata": "true"}, body.ljust(64 * KIB)
        )
        assert answer.status == 200


def test_no_rate_is_kept_by_default() -> None:
    """A local run lets everybody ask as often as they like."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        connection = endpoint.client("db_0")
        assert {poll(connection).status for _ in range(200)} == {200}


def _statuses(endpoint: EndpointHarness, machine: str, times: int) -> list[int]:
    connection = endpoint.client(machine)
    return [poll(connection).status for _ in range(times)]


def test_a_burst_then_the_rate() -> None:
    """Ten at once, then five more each second, never more than ten; the rest get 429."""
    with EndpointHarness(LIMITED) as endpoint:
        endpoint.stop_ticking()
        endpoint.make("db")
        assert _statuses(endpoint, "db_0", 12) == [200] * 10 + [429] * 2
        for _ in range(3):
            endpoint.tick()
            assert _statuses(endpoint, "db_0", 7) == [200] * 5 + [429] * 2
        endpoint.tick(60)
        assert _statuses(endpoint, "db_0", 12) == [200] * 10 + [429] * 2


def test_what_too_many_requests_says() -> None:
    """429 with `Retry-After` in whole seconds and a text; the connection stays."""
    with EndpointHarness(LIMITED) as endpoint:
        endpoint.stop_ticking()
        endpoint.make("db")
        _statuses(endpoint, "db_0", 10)
        connection = endpoint.client("db_0")
        for _ in range(2):
            answer = poll(connection)
            assert answer.status == 429
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.error
        endpoint.tick(int(answer.headers["retry-after"]))
        assert poll(connection).status == 200


def test_once_a_second_always_passes() -> None:
    """As the documentation advises: on one connection or on one each, for as long as it likes."""
    with EndpointHarness(LIMITED) as endpoint:
        endpoint.stop_ticking()
        endpoint.make("db")
        connection = endpoint.client("db_0")
        for _ in range(60):
            assert poll(connection).status == 200
            assert endpoint.get("db_0").status == 200
            endpoint.tick()


def test_each_machine_has_a_rate_of_its_own() -> None:
    """A busy neighbour, of the same scope even, takes nothing from others."""
    with EndpointHarness(LIMITED) as endpoint:
        endpoint.stop_ticking()
        endpoint.make("db", 2)
        assert _statuses(endpoint, "db_0", 20)[-1] == 429
        assert _statuses(endpoint, "db_1", 10) == [200] * 10


def test_all_of_a_machines_requests_count() -> None:
    """Polls, unchanged or not, approvals and instance metadata, on however many connections."""
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
            answer = endpoint.send_from("db_0", method, target, {"Metadata": "true"}, body)
            assert answer.status == 429


def test_a_refusal_costs_nothing_of_the_document() -> None:
    """Who was refused for asking too often reads the present document when let in again."""
    with EndpointHarness(LIMITED) as endpoint:
        endpoint.stop_ticking()
        endpoint.make("db")
        _statuses(endpoint, "db_0", 11)
        event = endpoint.restart("db_0")
        connection = endpoint.client("db_0")
        assert poll(connection).status == 429
        endpoint.tick()
        answer = send(connection, "GET", POLL, {"Metadata": "true"})
        assert [shown["EventId"] for shown in answer.json["Events"]] == [event.id]
