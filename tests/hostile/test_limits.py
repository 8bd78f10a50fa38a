import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from fairwarning.core import limits
from fairwarning.service.config.settings import MetadataSettings
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.preparation import connect, connections, hold, prepare
from tests.hostile.wire import GOOD, POLL, TARGET, Client, head

pytestmark = pytest.mark.spec("M17")

MAX_CONNECTIONS = 16  # connections of one machine


@contextmanager
def connect_all(endpoint: EndpointHarness, *machines: str) -> Iterator[list[Client]]:
    """Connect as each of these machines, in order; a machine may occur several times."""
    with ExitStack() as stack:
        yield [stack.enter_context(connect(endpoint, machine)) for machine in machines]


def assert_refused(endpoint: EndpointHarness, status: int) -> None:
    """Check that another connection of the first machine gets Retry-After and closes."""
    with connect(endpoint) as extra:
        (refusal,) = extra.replies()
    assert (refusal.status, refusal.closes) == (status, True)
    assert refusal.headers["retry-after"] == "1"
    assert "error" in refusal.json


@pytest.mark.parametrize(
    ("connections", "machines", "status"),
    [(1000, ["av_0"] * MAX_CONNECTIONS, 429), (20, ["av_0", "av_1"] * 10, 503)],
    ids=["machine", "server"],
)
def test_connection_limits(connections: int, machines: list[str], status: int) -> None:
    """One connection too many is refused, the others are not affected, and a closed one makes room.

    Another machine is refused at the limit of the server only.
    """
    with EndpointHarness(MetadataSettings(connections=connections)) as endpoint:
        prepare(endpoint)
        with connect_all(endpoint, *machines) as clients:
            assert_refused(endpoint, status)
            if status == 429:
                assert endpoint.get("av_1").status == 200
            assert {client.request(POLL).status for client in clients} == {200}
            clients[0].sock.close()
            endpoint.wait_until(lambda: len(endpoint.connections) == len(machines) - 1)
            assert endpoint.get("av_0").status == 200
        assert endpoint.server.counts.refused == {"connections": 1}


def test_connection_limit_of_an_unidentified_caller(endpoint: EndpointHarness) -> None:
    """Connections beyond the limit are refused, whichever sends a request first."""
    prepare(endpoint)
    endpoint.call(endpoint.server.callers.known.clear)
    with connect_all(endpoint, *["av_0"] * (MAX_CONNECTIONS + 1)) as clients:
        for client in clients:
            client.send(POLL)
        replies = [[reply.status for reply in client.finish()] for client in clients]
    assert sorted(replies) == [[200]] * MAX_CONNECTIONS + [[429]]


@pytest.mark.spec("M22")
def test_connection_limit_of_an_unknown_caller() -> None:
    """An address without a machine cannot use up all connections."""
    with EndpointHarness() as endpoint, ExitStack() as clients:
        endpoint.make("av", 1)
        for _ in range(3 * MAX_CONNECTIONS):
            sock = socket.create_connection(("127.200.0.1", endpoint.port))
            clients.enter_context(Client(sock)).send(POLL)
        endpoint.wait_until(lambda: endpoint.server.accepted == 3 * MAX_CONNECTIONS)
        assert len(connections(endpoint)) <= MAX_CONNECTIONS


# --- Deadlines ---


HALF_HEAD = POLL[:-10]
HALF_BODY = head("POST", TARGET, *GOOD, "Content-Length: 20") + b'{"Start'


def wait_until_reading(endpoint: EndpointHarness) -> None:
    """Wait until the endpoint has begun to read a request on its only connection."""
    (connection,) = connections(endpoint)
    endpoint.wait_until(lambda: connection._reader is not None)


def test_silence_ends_at_the_header_deadline(endpoint: EndpointHarness) -> None:
    """A connection without any data is closed without a response."""
    prepare(endpoint)
    with connect(endpoint) as client:
        endpoint.tick(limits.HEADER_SECONDS)
        assert len(connections(endpoint)) == 1
        endpoint.tick()
        assert client.replies() == []
    assert endpoint.server.counts.refused == {"idle": 1}


@pytest.mark.parametrize("before", [b"", POLL], ids=["first", "behind-a-poll"])
@pytest.mark.parametrize(
    ("begun", "seconds"),
    [
        (HALF_HEAD, limits.HEADER_SECONDS),
        (b"G", limits.HEADER_SECONDS),
        (HALF_BODY, limits.BODY_SECONDS),
    ],
    ids=["half-head", "one-byte", "half-body"],
)
def test_half_a_request_ends_at_its_deadline(
    endpoint: EndpointHarness, before: bytes, begun: bytes, seconds: int
) -> None:
    """It gets 408, then the connection closes; a request in the same packet extends nothing."""
    prepare(endpoint)
    with connect(endpoint) as client:
        client.send(before + begun)
        assert not before or client.reply().status == 200
        wait_until_reading(endpoint)
        endpoint.tick(seconds)
        assert len(connections(endpoint)) == 1
        endpoint.tick()
        (refusal,) = client.replies()
        assert (refusal.status, refusal.closes) == (408, True)
        assert "error" in refusal.json
    assert endpoint.server.counts.refused == {"deadline": 1}


def test_single_bytes_do_not_extend_the_deadline(endpoint: EndpointHarness) -> None:
    """The deadline is for the whole head, even with one byte a second."""
    prepare(endpoint)
    with connect(endpoint) as client:
        for byte in POLL[: limits.HEADER_SECONDS + 1]:
            client.send(bytes([byte]))
            wait_until_reading(endpoint)
            endpoint.tick()
        assert [refusal.status for refusal in client.replies()] == [408]


@pytest.mark.spec("M20")
def test_an_idle_connection_is_kept_for_a_while(endpoint: EndpointHarness) -> None:
    """An idle connection stays open for a limited time after a response."""
    prepare(endpoint)
    with connect(endpoint) as client:
        for _ in range(2):  # each request restarts the idle time
            assert client.request(POLL).status == 200
            endpoint.tick(limits.KEEP_SECONDS)
            assert len(connections(endpoint)) == 1
        endpoint.tick()
        assert client.replies() == []
    assert endpoint.server.counts.refused == {"idle": 1}


@pytest.mark.spec("M18", "M20")
def test_deadline_of_a_partial_request_behind_a_long_poll(endpoint: EndpointHarness) -> None:
    """Its deadline does not end the held request."""
    prepare(endpoint)
    with connect(endpoint) as client:
        hold(endpoint, client)
        client.send(HALF_HEAD)
        wait_until_reading(endpoint)
        endpoint.tick(limits.HEADER_SECONDS + 5)
        endpoint.freeze("av_0")
        assert client.reply().status == 200
        endpoint.tick(limits.HEADER_SECONDS + 1)
        assert [refusal.status for refusal in client.replies()] == [408]


# --- Clients that do not read ---

_EVENTS = 50
_BIG_POLLS = 1_000


def unread(endpoint: EndpointHarness) -> Client:
    """Return a client that requests a large document a thousand times and reads nothing."""
    endpoint.make("av", _EVENTS)
    assert endpoint.get("av_0").status == 200
    for n in range(_EVENTS):
        endpoint.freeze(f"av_{n}")
    endpoint.stop_ticking()
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    small.connect(endpoint.address("av_0"))
    client = Client(small)
    client.send(POLL * _BIG_POLLS)
    endpoint.wait_until(
        lambda: any(connection._writing_paused for connection in endpoint.connections)
    )
    return client


def test_a_client_that_does_not_read_is_disconnected() -> None:
    """Its unread responses are discarded, and its connection is closed."""
    with EndpointHarness() as endpoint, unread(endpoint):
        endpoint.tick(limits.WRITE_SECONDS)
        assert len(connections(endpoint)) == 1
        endpoint.tick()
        endpoint.wait_until(lambda: not endpoint.connections)
        assert endpoint.server.counts.refused == {"unread": 1}
        assert endpoint.get("av_0").status == 200


def test_memory_of_a_client_that_does_not_read() -> None:
    """Buffered responses are bounded, however many are requested; all arrive in the end."""
    with EndpointHarness() as endpoint, unread(endpoint) as client:
        (connection,) = connections(endpoint)
        assert endpoint.call(connection._transport.get_write_buffer_size) < 1024 * 1024
        for _ in range(_BIG_POLLS):
            assert client.reply().status == 200
