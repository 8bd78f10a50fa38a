"""How many connections the console and the ARM port accept, in all and from one address."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from fairwarning.server.ports.connection import LimitedConnection
from fairwarning.server.ports.refusals import PortLimits
from tests.fixtures.files import no_free_descriptor
from tests.hostile.ports import WAYS, PortHarness
from tests.hostile.wire import RESET, Client, head

GET = head("GET", "/", "Host: localhost")
CONNECTIONS, OF_ADDRESS = 6, 4
FIRST, SECOND = "127.0.0.1", "127.0.0.2"


@pytest.fixture(params=WAYS)
def port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PortHarness]:
    """A port with few connections, served in each way."""
    with PortHarness(WAYS[request.param], tmp_path, CONNECTIONS, OF_ADDRESS) as harness:
        yield harness


def connect(port: PortHarness, clients: ExitStack, source: str, count: int) -> list[Client]:
    """Connect so many times from this address; each connection is answered."""
    connected = [clients.enter_context(port.connect(source)) for _ in range(count)]
    assert {client.request(GET).status for client in connected} == {200}
    return connected


def assert_refused(port: PortHarness, source: str, status: int) -> None:
    """Check that one more connection is refused: with a response, or before its TLS handshake."""
    with port.open(source) as sock:
        if port.tls:
            with suppress(ConnectionResetError):
                assert sock.recv(1) == b""
            return
        reply = Client(sock).request(GET)
    assert (reply.status, reply.closes) == (status, True)
    assert reply.headers["retry-after"] == "1"
    assert reply.json["error"]["code"] == "TooManyConnections"


def test_connections_of_an_address_and_of_the_port(port: PortHarness) -> None:
    """One too many is refused; others are not affected, and one that is closed makes room."""
    with ExitStack() as clients:
        connected = connect(port, clients, FIRST, OF_ADDRESS)
        assert_refused(port, FIRST, 429)
        connected += connect(port, clients, SECOND, CONNECTIONS - OF_ADDRESS)
        assert_refused(port, SECOND, 503)
        assert {client.request(GET).status for client in connected} == {200}
        connected[0].sock.close()
        port.wait_until(lambda: len(port.connections) == CONNECTIONS - 1)
        connect(port, clients, FIRST, 1)


def test_connections_in_their_handshake_count(tmp_path: Path) -> None:
    """A client cannot exceed the limit by not finishing its TLS handshakes."""
    with (
        PortHarness(WAYS["arm"], tmp_path, CONNECTIONS, OF_ADDRESS) as port,
        ExitStack() as clients,
    ):
        for _ in range(OF_ADDRESS):
            clients.enter_context(port.open(FIRST)).sendall(b"\x16")
        assert_refused(port, FIRST, 429)
        connect(port, clients, SECOND, 1)


@pytest.mark.spec("O13")
@pytest.mark.parametrize("way", [way for way in WAYS if WAYS[way].tls])
def test_a_plain_request_to_a_port_with_tls(way: str, tmp_path: Path) -> None:
    """It gets a response that says to use https, and no longer counts."""
    with PortHarness(WAYS[way], tmp_path, connections=1) as port:
        with port.open() as sock:
            reply = Client(sock).request(GET)
        assert (reply.status, reply.closes) == (400, True)
        assert reply.json["error"]["code"] == "TlsRequired"
        with port.connect() as client:
            assert client.request(GET).status == 200


def test_reset_connections_do_not_count(port: PortHarness) -> None:
    """However many there are."""
    for _ in range(10 * CONNECTIONS):
        with port.open(FIRST) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    with ExitStack() as clients:
        connect(port, clients, SECOND, 1)  # accepted after all of them
        port.wait_until(lambda: FIRST not in port.counter._of_address)
        connect(port, clients, FIRST, OF_ADDRESS)


def test_connections_that_cannot_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are closed and do not count: the port would be full for ever (IB5)."""
    with PortHarness(WAYS["console"], tmp_path, connections=1) as port:
        with monkeypatch.context() as broken:
            broken.setattr(LimitedConnection, "connection_made", None)
            for _ in range(3):
                with port.open() as sock, suppress(ConnectionError):
                    sock.sendall(GET)
                    assert sock.recv(1) == b""
                port.wait_until(lambda: not port.counter._of_address)
        with port.connect() as client:
            assert client.request(GET).status == 200


def test_a_connection_whose_deadline_cannot_be_checked(tmp_path: Path) -> None:
    """It is closed, and all others keep their deadlines (IB5)."""
    with PortHarness(WAYS["console"], tmp_path) as port, ExitStack() as clients:
        connect(port, clients, FIRST, 2)

        def fail(now: float) -> bool:
            raise KeyError(now)

        def spoil() -> None:
            first, second = port.connections
            first.tick = fail  # type: ignore[method-assign]
            second._deadline = 0.0

        port.call(spoil)
        port.wait_until(lambda: not port.connections)
        connect(port, clients, FIRST, 1)


def test_a_port_that_starts_without_a_free_descriptor(tmp_path: Path) -> None:
    """It says so, and serves the connection that waits as soon as there is one (IB5)."""
    way = WAYS["console"]
    with PortHarness(way, tmp_path) as warm, warm.connect() as client:
        assert client.request(GET).status == 200  # so that everything is imported
    with PortHarness(way, tmp_path) as port, socket.socket() as sock:
        with no_free_descriptor():
            sock.connect((FIRST, port.port))
            problem = port.wait_until(lambda: port._lazy.health().problem)
        assert "Too many open files" in problem
        assert Client(sock).request(GET).status == 200
        assert not port._lazy.health().problem


@pytest.mark.parametrize(
    ("descriptors", "expected"),
    [
        (resource.RLIM_INFINITY, (512, 256)),
        (65_536, (512, 256)),
        (1024, (128, 64)),
        (100, (12, 6)),
        (4, (1, 1)),
    ],
)
def test_a_port_leaves_descriptors_for_machines(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, expected: tuple[int, int]
) -> None:
    """A port uses at most an eighth of them, and one address the same part of it as before."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    port_limits = PortLimits(connections=512, of_address=256).within_descriptors()
    assert (port_limits.connections, port_limits.of_address) == expected
