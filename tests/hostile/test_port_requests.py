"""Requests to the console and the ARM port that are too large, too slow or without end."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fairwarning.core import limits
from tests.hostile.ports import WAYS, PortHarness
from tests.hostile.probes_frames import END, chunk
from tests.hostile.wire import Client, Reply, head

HOST = "Host: localhost"
DATE = "Fri, 09 Jan 2026 12:00:00 GMT"
GET = head("GET", "/", HOST)
WAIT = head("GET", "/wait", HOST)
HALF_HEAD = GET[:-2]
HALF_BODY = head("POST", "/read", HOST, "Content-Length: 20") + b"half"
CHUNKED = head("POST", "/read", HOST, "Transfer-Encoding: chunked")
LINE = b"X-Line: " + b"x" * 8000 + b"\r\n"
ENOUGH = 10 * limits.PORT_HEADER_BYTES


@pytest.fixture(params=WAYS)
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PortHarness]:
    """A port, served in each way."""
    with PortHarness(WAYS[request.param], tmp_path) as harness:
        yield harness


def assert_refused(reply: Reply, status: int, code: str) -> None:
    """Check that a refusal says what is wrong, has fleet time and closes the connection."""
    assert (reply.status, reply.json["error"]["code"]) == (status, code)
    assert reply.json["error"]["message"]
    assert (reply.headers["date"], reply.closes) == (DATE, True)


def send_slowly(port: PortHarness, client: Client, data: bytes, seconds: float) -> None:
    """Send single bytes, and wait until the server has read each; then let the time pass."""
    for n in range(len(data)):
        client.send(data[n : n + 1])
        port.tick(seconds / 2)
    port.tick(seconds + 1)


# --- Too large ---


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * ENOUGH, id="value"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"x" * ENOUGH, id="name"),
        pytest.param(b"GET /" + b"x" * ENOUGH, id="target"),
        pytest.param(b"GET /" + b"x" * limits.PORT_PATH_BYTES + b"? HTTP/1.1\r\n\r\n", id="path"),
        pytest.param(b"GET / HTTP/1.1\r\n" + LINE * 9 + b"\r\n", id="lines"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: x\r\n" * 300, id="fields"),
        pytest.param(CHUNKED + chunk(b"x") + b"0\r\nX-Long: " + b"x" * ENOUGH, id="trailer"),
        pytest.param(CHUNKED + b"1;" + b"x" * ENOUGH, id="extension"),
    ],
)
def test_too_many_bytes_that_are_no_body(port: PortHarness, sent: bytes) -> None:
    """The request is refused, long before its end."""
    with port.connect() as client:
        assert_refused(client.request(sent), 431, "HeadersTooLarge")


def test_headers_within_the_limits(port: PortHarness) -> None:
    """Nearly 64 KiB of headers, and a body of many pieces, are accepted."""
    with port.connect() as client:
        assert client.request(b"GET / HTTP/1.1\r\n" + LINE * 8 + b"\r\n").status == 200
        assert client.request(CHUNKED + chunk(b"x" * 1000) * 4000 + END).status == 200
        assert port.bodies == [4_000_000]


def test_a_malformed_request(port: PortHarness) -> None:
    """It is refused with a JSON body."""
    with port.connect() as client:
        assert_refused(client.request(b"\x16\x03\x01nonsense\r\n\r\n"), 400, "BadRequest")


def test_a_malformed_request_behind_another(port: PortHarness) -> None:
    """The first one is answered; then the connection closes."""
    with port.connect() as client:
        client.send(WAIT + b"nonsense\r\n\r\n")
        port.wait_until(lambda: any(c._discarding for c in port.connections))
        port.call(port.release.set)
        assert [reply.status for reply in client.replies()] == [200]


# --- Too slow ---


@pytest.mark.parametrize(
    ("sent", "rest", "seconds"),
    [
        pytest.param(HALF_HEAD, b"", limits.PORT_HEADER_SECONDS, id="head"),
        pytest.param(GET + HALF_HEAD, b"", limits.PORT_HEADER_SECONDS, id="second head"),
        pytest.param(HALF_HEAD, b"X-Slow", limits.PORT_HEADER_SECONDS, id="head in drips"),
        pytest.param(HALF_BODY, b"", limits.PORT_BODY_SECONDS, id="body"),
        pytest.param(HALF_BODY, b"drips", limits.PORT_BODY_SECONDS, id="body in drips"),
    ],
)
def test_a_slow_request(port: PortHarness, sent: bytes, rest: bytes, seconds: int) -> None:
    """It is refused at its deadline; bytes that arrive meanwhile do not extend that."""
    with port.connect() as client:
        client.send(sent)
        assert not sent.startswith(GET) or client.reply().status == 200
        port.wait_until(lambda: any(c._in_head or c._in_body for c in port.connections))
        send_slowly(port, client, rest, seconds)
        assert_refused(client.reply(), 408, "RequestTimeout")


@pytest.mark.parametrize("sent", [b"", b"\r\n"])
def test_a_client_that_sends_no_request(port: PortHarness, sent: bytes) -> None:
    """Its connection is closed without a response."""
    with port.connect() as client:
        client.send(sent)
        port.wait_until(lambda: port.connections)
        port.tick(limits.PORT_HEADER_SECONDS + 1)
        assert client.next() is None


def test_a_slow_handshake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not finish its TLS handshake is disconnected, and no longer counted."""
    monkeypatch.setattr(limits, "PORT_HEADER_SECONDS", 3.0)  # enough for an honest client
    with PortHarness(WAYS["arm"], tmp_path, connections=1) as port:
        with port.open() as silent:
            silent.sendall(b"\x16\x03\x01")
            with suppress(ConnectionResetError):
                assert silent.recv(1) == b""
        port.wait_until(lambda: port.counter.refusal("127.0.0.1") is None)
        with port.connect() as client:
            assert client.request(GET).status == 200


# --- Without end ---


def test_an_endless_body_that_nobody_reads(port: PortHarness) -> None:
    """The client gets its response, and is disconnected soon after it."""
    with port.connect() as client:
        assert client.request(head("POST", "/", HOST, "Content-Length: 999999999")).status == 200
        client.send(b"x" * 100_000)
        port.tick(limits.PORT_LINGER_SECONDS + 1)
        assert client.next() is None


def test_a_body_that_nobody_reads_and_the_next_request(port: PortHarness) -> None:
    """The connection stays open, if the body ends in time."""
    with port.connect() as client:
        assert client.request(head("POST", "/", HOST, "Content-Length: 9")).status == 200
        assert client.request(b"x" * 9 + GET).status == 200


def test_a_refused_client_that_goes_on_sending(port: PortHarness) -> None:
    """What it sends is ignored for a while, and then it is disconnected."""
    with port.connect() as client:
        assert_refused(client.request(b"nonsense\r\n\r\n"), 400, "BadRequest")
        client.send(*[LINE] * 100)
        port.wait_until(lambda: any(c._discarded >= 100 * len(LINE) for c in port.connections))
        port.tick(limits.PORT_LINGER_SECONDS + 1)
        port.wait_until(lambda: not port.connections)


@pytest.mark.parametrize("way", ["console", "console on asyncio"])
def test_endless_pipelined_requests(way: str, tmp_path: Path) -> None:
    """The server reads a bounded part of them before it answers; then it answers all."""
    requests, long = 500, GET[:-2] + LINE + b"\r\n"
    with PortHarness(WAYS[way], tmp_path) as port, port.connect() as client:
        sender = threading.Thread(target=client.send, args=(WAIT + long * requests,))
        sender.start()
        (connection,) = port.wait_until(
            lambda: [c for c in port.connections if c._held or c.flow.read_paused]
        )
        held, queued = port.call(lambda: (len(connection._held), len(connection.pipeline)))
        assert held <= 1024 * 1024
        assert queued <= 64 * 1024 / len(long)
        port.call(port.release.set)
        assert {client.reply().status for _ in range(requests + 1)} == {200}
        sender.join()


@pytest.mark.parametrize("more", ["Connection: close", "Connection: keep-alive"])
def test_a_client_that_does_not_read(port: PortHarness, more: str) -> None:
    """It is disconnected, and its response is discarded."""
    with port.connect(buffer_bytes=4096) as client:
        client.send(head("GET", "/big", HOST, more))
        port.wait_until(lambda: any(c.flow.write_paused for c in port.connections))
        port.tick(limits.PORT_WRITE_SECONDS + 1)
        port.wait_until(lambda: not port.connections)


def test_a_stream_has_no_deadline(port: PortHarness) -> None:
    """It stays open as long as the application likes."""
    with port.connect() as client:
        client.send(head("GET", "/stream", HOST))
        while b"first" not in client._rest:
            assert client._more()
        port.tick(3600)
        port.call(port.release.set)
        while not client._rest.endswith(b"0\r\n\r\n"):
            assert client._more()
