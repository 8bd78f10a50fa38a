"""HTTP behaviour that real clients rely on (M20)."""

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
    """Send bytes and return everything the server sends until it closes the connection."""
    with endpoint.open("db_0") as client:
        client.sendall(sent)
        return read_all(client)


@pytest.mark.parametrize("repeat", [1, 2])
def test_connection_close_is_echoed(endpoint: EndpointHarness, repeat: int) -> None:
    """The response to `Connection: close` repeats the header, then the server closes."""
    endpoint.make("db")
    for _ in range(repeat):
        response = _until_closed(endpoint, raw_request(POLL, "Connection: close"))
        head, _, body = response.partition(b"\r\n\r\n")
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
def test_every_kind_of_response_closes(endpoint: EndpointHarness, sent: bytes) -> None:
    """Refusals, 304 and other responses send `Connection: close`, and close."""
    endpoint.make("db")
    head = _until_closed(endpoint, sent).partition(b"\r\n\r\n")[0].lower()
    assert b"connection: close" in head


def test_connection_is_kept_alive_by_default(endpoint: EndpointHarness) -> None:
    """HTTP/1.1 serves several requests in a row, without a `Connection` header."""
    endpoint.make("db")
    connection = endpoint.client("db_0")
    connection.connect()
    first = connection.sock
    for _ in range(5):
        response = poll(connection)
        assert response.body == EMPTY
        assert "connection" not in response.headers
    assert connection.sock is first
    assert endpoint.call(lambda: endpoint.server.accepted) == 1


def test_refusals_keep_the_connection(endpoint: EndpointHarness) -> None:
    """A refused request keeps the connection open if the next request can be located."""
    endpoint.make("db")
    connection = endpoint.client("db_0")
    for version, status in (("latest", 400), ("2031-01-01", 404), ("2020-07-01", 200)):
        assert poll(connection, version).status == status
    assert endpoint.call(lambda: endpoint.server.accepted) == 1


@pytest.mark.parametrize("headers", [(), ("Connection: keep-alive",), ("Connection: close",)])
def test_http_1_0_works(endpoint: EndpointHarness, headers: tuple[str, ...]) -> None:
    """An HTTP/1.0 client gets a response with a length, then the connection closes."""
    endpoint.make("db")
    response = _until_closed(endpoint, raw_request(POLL, *headers, http="1.0"))
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"200"
    assert b"\r\nContent-Length: 37" in head
    assert b"transfer-encoding" not in head.lower()
    assert body == EMPTY


def test_http_1_0_needs_no_host(endpoint: EndpointHarness) -> None:
    """HTTP/1.1 needs a Host header: without it, 400."""
    endpoint.make("db")
    lines = f"GET {POLL} HTTP/{{}}\r\nMetadata: true\r\n\r\n"
    assert EMPTY in _until_closed(endpoint, lines.format("1.0").encode())
    assert endpoint.raw("db_0", lines.format("1.1").encode()).startswith(b"HTTP/1.1 400 ")


def test_an_approval_in_http_1_0(endpoint: EndpointHarness) -> None:
    """POST works as well; its response has an empty body of known length."""
    endpoint.make("db")
    endpoint.get("db_0")
    body = approval(endpoint.restart("db_0").id)
    head = raw_request(POLL, f"Content-Length: {len(body)}", method="POST", http="1.0")
    response = _until_closed(endpoint, head + body.encode())
    assert response.split(b" ")[1] == b"200"
    assert response.endswith(b"\r\n\r\n")
    assert b"\r\nContent-Length: 0\r\n" in response


def test_half_closed_client_is_answered(endpoint: EndpointHarness) -> None:
    """A client that has closed its sending side still gets its response."""
    endpoint.make("db")
    with endpoint.open("db_0") as client:
        client.sendall(raw_request(POLL))
        client.shutdown(socket.SHUT_WR)
        assert read_all(client).endswith(EMPTY)


def _statuses(response: bytes) -> list[bytes]:
    return [part[:3] for part in response.split(b"HTTP/1.1 ")[1:]]


def test_pipelined_requests_are_answered_in_order(endpoint: EndpointHarness) -> None:
    """Three requests in one packet get three responses, in order; also before EOF."""
    endpoint.make("db")
    sent = raw_request(POLL) + raw_request("/nowhere")
    closing = sent + raw_request(POLL, "Connection: close")
    assert _statuses(_until_closed(endpoint, closing)) == [b"200", b"404", b"200"]
    assert _statuses(endpoint.raw("db_0", sent + raw_request(POLL))) == [b"200", b"404", b"200"]


def test_a_request_sent_byte_by_byte(endpoint: EndpointHarness) -> None:
    """A request is read as one, however the network splits it."""
    endpoint.make("db")
    sent = raw_request(POLL)
    response = endpoint.raw("db_0", *(sent[n : n + 1] for n in range(len(sent))))
    assert response.startswith(b"HTTP/1.1 200 ")
    assert response.endswith(EMPTY)


def test_head_is_answered_without_a_body(endpoint: EndpointHarness) -> None:
    """The 405 to a HEAD has no body, so the next response is read correctly."""
    endpoint.make("db")
    response = endpoint.raw("db_0", raw_request(POLL, method="HEAD"), raw_request(POLL))
    head, _, rest = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 405 ")
    assert rest.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_an_upgrade_is_ignored(endpoint: EndpointHarness, protocol: str) -> None:
    """A client that offers another protocol, as `curl --http2` does, gets one HTTP/1.1 response."""
    endpoint.make("db")
    endpoint.get("db_0")
    sent = raw_request(POLL, "Connection: Upgrade, HTTP2-Settings", f"Upgrade: {protocol}")
    response = endpoint.raw("db_0", sent)
    assert response.count(b"HTTP/1.1 ") == 1
    assert response.startswith(b"HTTP/1.1 200 ")


def test_an_approval_that_offers_an_upgrade(endpoint: EndpointHarness) -> None:
    """Java's own client offers one with every request; its body is read all the same."""
    endpoint.make("db")
    endpoint.get("db_0")
    body = approval(endpoint.restart("db_0").id)
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAA")
    head = raw_request(POLL, f"Content-Length: {len(body)}", *offer, method="POST")
    response = endpoint.raw("db_0", head + body.encode())
    assert _statuses(response) == [b"200"]
    assert endpoint.get("db_0").json["Events"][0]["EventStatus"] == "Started"


def test_the_order_of_resources_stays(endpoint: EndpointHarness) -> None:
    """An event keeps the order of its machines for as long as it is shown."""
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
            endpoint.do(AddMachines(scope="db", machines=(Machine(name="a"), Machine(name="z"))))
        if step == 3:
            endpoint.approve("db_9", event.id)
    assert sorted(orders[0]) == sorted(chosen)
    assert all(order == orders[0] for order in orders)
    assert endpoint.get("db_0").json["Events"][0]["EventStatus"] == "Started"


def test_an_internal_failure_is_answered(
    endpoint: EndpointHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected exception gives 503 and a log line, and does not hang the connection."""
    endpoint.make("db")

    async def fail(scope: str) -> PublishedScope:
        raise ZeroDivisionError

    endpoint.fleet.poll = fail  # type: ignore[method-assign]
    response = endpoint.get("db_0")
    assert (response.status, response.headers["connection"]) == (503, "close")
    assert "metadata request failed" in caplog.text
