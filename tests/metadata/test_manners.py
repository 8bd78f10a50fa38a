"""HTTP manners that real clients need (M20)."""

import socket

import pytest

from fairwarning.core.commands import AddMachines
from fairwarning.core.model import Machine
from fairwarning.service.documents import PublishedScope
from tests.fixtures.endpoint import EVENTS, EndpointHarness, approval, poll, raw_request, read_all

pytestmark = pytest.mark.spec("M20")

POLL = f"{EVENTS}?api-version=2020-07-01"
EMPTY = b'{"DocumentIncarnation":1,"Events":[]}'


def _until_closed(endpoint: EndpointHarness, sent: bytes) -> bytes:
    """What is answered by the time the server hangs up of its own accord."""
    with endpoint.open("db_0") as client:
        client.sendall(sent)
        return read_all(client)


@pytest.mark.parametrize("repeat", [1, 2])
def test_close_is_answered_in_kind(repeat: int) -> None:
    """`Connection: close`: the answer says the same, then the server closes; so it does again."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        for _ in range(repeat):
            answer = _until_closed(endpoint, raw_request(POLL, "Connection: close"))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"connection: close" in head.lower()
            assert body == EMPTY


@pytest.mark.parametrize(
    "sent",
    [
        raw_request("/nowhere", "Connection: close"),
        raw_request(EVENTS, "Connection: close"),
        raw_request(POLL, "Connection: close", "If-None-Match: *"),
        raw_request("/metadata/versions", "connection: CLOSE"),
        raw_request(POLL, "Connection: close", "X-Forwarded-For: 1"),
        raw_request(POLL, "Connection: close", method="PUT"),
    ],
)
def test_every_kind_of_answer_closes(sent: bytes) -> None:
    """Refusals, 304 and others say that they close, and do."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        head = _until_closed(endpoint, sent).partition(b"\r\n\r\n")[0].lower()
        assert b"connection: close" in head


def test_without_it_the_connection_stays() -> None:
    """HTTP/1.1 goes on: several requests one after the other, and nothing is said of closing."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        connection = endpoint.client("db_0")
        connection.connect()
        first = connection.sock
        for _ in range(5):
            answer = poll(connection)
            assert answer.body == EMPTY
            assert "connection" not in answer.headers
        assert connection.sock is first
        assert endpoint.call(lambda: endpoint.server.accepted) == 1


def test_refusals_keep_the_connection() -> None:
    """A wrong request is no reason to hang up, if what follows can be told from it."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        connection = endpoint.client("db_0")
        for version, status in (("latest", 400), ("2031-01-01", 404), ("2020-07-01", 200)):
            assert poll(connection, version).status == status
        assert endpoint.call(lambda: endpoint.server.accepted) == 1


@pytest.mark.parametrize("headers", [(), ("Connection: keep-alive",), ("Connection: close",)])
def test_http_1_0_works(headers: tuple[str, ...]) -> None:
    """An old client gets its answer, with a length, and the connection is closed after it."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        answer = _until_closed(endpoint, raw_request(POLL, *headers, http="1.0"))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.split(b" ")[1] == b"200"
        assert b"\r\nContent-Length: 37" in head
        assert b"transfer-encoding" not in head.lower()
        assert body == EMPTY


def test_http_1_0_needs_no_host() -> None:
    """HTTP/1.1 does: that is a Bad Request without."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        lines = f"GET {POLL} HTTP/{{}}\r\nMetadata: true\r\n\r\n"
        assert EMPTY in _until_closed(endpoint, lines.format("1.0").encode())
        assert endpoint.raw("db_0", lines.format("1.1").encode()).startswith(b"HTTP/1.1 400 ")


def test_an_approval_in_http_1_0() -> None:
    """POST works as well, and is answered with an empty body of known length."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.get("db_0")
        body = approval(endpoint.restart("db_0").id)
        head = raw_request(POLL, f"Content-Length: {len(body)}", method="POST", http="1.0")
        answer = _until_closed(endpoint, head + body.encode())
        assert answer.split(b" ")[1] == b"200"
        assert answer.endswith(b"\r\n\r\n")
        assert b"\r\nContent-Length: 0\r\n" in answer


def test_a_client_that_sends_no_more_is_answered() -> None:
    """Half a connection closed is no reason not to use the other half."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        with endpoint.open("db_0") as client:
            client.sendall(raw_request(POLL))
            client.shutdown(socket.SHUT_WR)
            assert read_all(client).endswith(EMPTY)


def _statuses(answer: bytes) -> list[bytes]:
    return [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]]


def test_requests_run_together_are_answered_in_order() -> None:
    """Three in one piece: three answers, each in its place."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        sent = raw_request(POLL) + raw_request("/nowhere") + raw_request(POLL, "Connection: close")
        assert _statuses(_until_closed(endpoint, sent)) == [b"200", b"404", b"200"]


def test_requests_before_the_end_are_answered() -> None:
    """A client that sends several, and no more, gets an answer to each: also to its first ever."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        sent = raw_request(POLL) + raw_request("/nowhere") + raw_request(POLL)
        assert _statuses(endpoint.raw("db_0", sent)) == [b"200", b"404", b"200"]


def test_a_request_cut_into_bytes() -> None:
    """However the network cuts it up, a request is one."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        sent = raw_request(POLL)
        answer = endpoint.raw("db_0", *(sent[n : n + 1] for n in range(len(sent))))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(EMPTY)


def test_head_is_answered_without_a_body() -> None:
    """A HEAD, though not allowed, has no body after its head: what follows stays in step."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        answer = endpoint.raw("db_0", raw_request(POLL, method="HEAD"), raw_request(POLL))
        head, _, rest = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 405 ")
        assert rest.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_an_upgrade_is_not_taken_up(protocol: str) -> None:
    """A client that offers another protocol, as `curl --http2` does, gets one answer in ours."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.get("db_0")
        sent = raw_request(POLL, "Connection: Upgrade, HTTP2-Settings", f"Upgrade: {protocol}")
        answer = endpoint.raw("db_0", sent)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer.startswith(b"HTTP/1.1 200 ")


def test_an_approval_that_offers_an_upgrade() -> None:
    """Java's own client offers one with every request: its body is read all the same."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.get("db_0")
        body = approval(endpoint.restart("db_0").id)
        offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAA")
        head = raw_request(POLL, f"Content-Length: {len(body)}", *offer, method="POST")
        answer = endpoint.raw("db_0", head + body.encode())
        assert _statuses(answer) == [b"200"]
        assert endpoint.get("db_0").json["Events"][0]["EventStatus"] == "Started"


def test_the_order_of_resources_stays() -> None:
    """From when it is first shown until it is gone, an event keeps the order of its machines."""
    with EndpointHarness() as endpoint:
        endpoint.make("db", 12)
        endpoint.get("db_0")
        chosen = [f"db_{n}" for n in (7, 11, 2, 10, 0)]
        event = endpoint.freeze(*chosen)
        orders = []
        for step in range(6):
            for version in ("2017-08-01", "2020-07-01"):
                (shown,) = endpoint.get(f"db_{step}", version).json["Events"]
                orders.append(shown["Resources"])
            if step == 1:
                endpoint.do(
                    AddMachines(scope="db", machines=(Machine(name="a"), Machine(name="z")))
                )
            if step == 3:
                endpoint.approve("db_9", event.id)
        assert sorted(orders[0]) == sorted(chosen)
        assert all(order == orders[0] for order in orders)
        assert endpoint.get("db_0").json["Events"][0]["EventStatus"] == "Started"


def test_a_failure_of_ours_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    """What nobody thought of is a 503 and a line in the log, never a connection that hangs."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")

        async def fail(scope: str) -> PublishedScope:
            raise ZeroDivisionError

        endpoint.fleet.poll = fail  # type: ignore[method-assign]
        answer = endpoint.get("db_0")
        assert (answer.status, answer.headers["connection"]) == (503, "close")
        assert "a request failed" in caplog.text
