import socket

import pytest

from fairwarning.core import limits
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.preparation import client_of, connections, hold, prepare
from tests.hostile.wire import GOOD, POLL, TARGET, Client, head

HALF_HEAD = POLL[:-10]
HALF_BODY = head("POST", TARGET, *GOOD, "Content-Length: 20") + b'{"Start'


def read_in(endpoint: EndpointHarness) -> None:
    """The endpoint has begun to read a request on its one connection."""
    (connection,) = connections(endpoint)
    endpoint.wait_until(lambda: connection._reader is not None)


@pytest.mark.spec("M17")
def test_silence_ends_at_the_header_deadline() -> None:
    """A connection on which nothing was ever said is closed, without a word."""
    with EndpointHarness() as endpoint:
        prepare(endpoint)
        with client_of(endpoint) as client:
            endpoint.tick(limits.HEADER_SECONDS)
            assert len(connections(endpoint)) == 1
            endpoint.tick()
            assert client.replies() == []
        assert endpoint.server.counts.refused == {"idle": 1}


@pytest.mark.spec("M17")
@pytest.mark.parametrize(
    ("begun", "seconds"),
    [
        (HALF_HEAD, limits.HEADER_SECONDS),
        (b"G", limits.HEADER_SECONDS),
        (HALF_BODY, limits.BODY_SECONDS),
    ],
    ids=["half-head", "one-byte", "half-body"],
)
def test_half_a_request_ends_at_its_deadline(begun: bytes, seconds: int) -> None:
    """A request that does not come to its end in time is refused with 408, and closed on."""
    with EndpointHarness() as endpoint:
        prepare(endpoint)
        with client_of(endpoint) as client:
            client.send(begun)
            read_in(endpoint)
            endpoint.tick(seconds)
            assert len(connections(endpoint)) == 1
            endpoint.tick()
            (refusal,) = client.replies()
            assert (refusal.status, refusal.closes) == (408, True)
            assert "error" in refusal.json
        assert endpoint.server.counts.refused == {"deadline": 1}


@pytest.mark.spec("M17")
@pytest.mark.parametrize(
    ("begun", "seconds"),
    [(HALF_HEAD, limits.HEADER_SECONDS), (HALF_BODY, limits.BODY_SECONDS)],
    ids=["half-head", "half-body"],
)
def test_a_good_request_before_it_buys_no_time(begun: bytes, seconds: int) -> None:
    """Half a request behind a whole one, in one piece, has no longer than any other."""
    with EndpointHarness() as endpoint:
        prepare(endpoint)
        with client_of(endpoint) as client:
            assert client.ask(POLL + begun).status == 200
            read_in(endpoint)
            endpoint.tick(seconds + 1)
            assert [refusal.status for refusal in client.replies()] == [408]


@pytest.mark.spec("M17")
def test_drops_buy_no_time() -> None:
    """One byte a second is as slow as none: the deadline is the whole head's."""
    with EndpointHarness() as endpoint:
        prepare(endpoint)
        with client_of(endpoint) as client:
            for byte in POLL[: limits.HEADER_SECONDS + 1]:
                client.send(bytes([byte]))
                read_in(endpoint)
                endpoint.tick()
            assert [refusal.status for refusal in client.replies()] == [408]


@pytest.mark.spec("M17", "M20")
def test_an_idle_connection_is_kept_for_a_while() -> None:
    """After an answer a connection may be quiet, but not for ever."""
    with EndpointHarness() as endpoint:
        prepare(endpoint)
        with client_of(endpoint) as client:
            for _ in range(2):  # each request begins it anew
                assert client.ask(POLL).status == 200
                endpoint.tick(limits.KEEP_SECONDS)
                assert len(connections(endpoint)) == 1
            endpoint.tick()
            assert client.replies() == []
        assert endpoint.server.counts.refused == {"idle": 1}


@pytest.mark.spec("M18")
def test_a_long_poll_is_not_idle() -> None:
    """A held request outlives every deadline of those who ask nothing."""
    with EndpointHarness() as endpoint:
        prepare(endpoint)
        with client_of(endpoint) as client:
            hold(endpoint, client)
            endpoint.tick(200)
            endpoint.freeze("av_0")
            assert client.reply().status == 200


@pytest.mark.spec("M18", "M20")
def test_half_a_request_behind_a_long_poll_waits_its_turn() -> None:
    """The deadline of a request behind a held one is no answer to the held one."""
    with EndpointHarness() as endpoint:
        prepare(endpoint)
        with client_of(endpoint) as client:
            hold(endpoint, client)
            client.send(HALF_HEAD)
            read_in(endpoint)
            endpoint.tick(limits.HEADER_SECONDS + 5)
            endpoint.freeze("av_0")
            assert client.reply().status == 200
            endpoint.tick(limits.HEADER_SECONDS + 1)
            assert [refusal.status for refusal in client.replies()] == [408]


# --- Clients that do not read ---

_EVENTS = 50
_BIG_POLLS = 1_000


def unread(endpoint: EndpointHarness) -> Client:
    """A client with a large document that asks for it a thousand times and reads nothing."""
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


@pytest.mark.spec("M17")
def test_a_client_that_does_not_read_is_let_go() -> None:
    """Answers that nobody takes are thrown away, and the connection with them."""
    with EndpointHarness() as endpoint, unread(endpoint):
        endpoint.tick(limits.WRITE_SECONDS)
        assert len(connections(endpoint)) == 1
        endpoint.tick()
        endpoint.wait_until(lambda: not endpoint.connections)
        assert endpoint.server.counts.refused == {"unread": 1}
        assert endpoint.get("av_0").status == 200


@pytest.mark.spec("M17")
def test_a_client_that_does_not_read_costs_little() -> None:
    """What waits to be read is bounded, however much was asked for; in the end all of it comes."""
    with EndpointHarness() as endpoint, unread(endpoint) as client:
        (connection,) = connections(endpoint)
        assert endpoint.call(connection._transport.get_write_buffer_size) < 1024 * 1024
        for _ in range(_BIG_POLLS):
            assert client.reply().status == 200
