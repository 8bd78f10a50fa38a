"""A poll with `Connection: close` that arrives with its connection: answered without one."""

import socket
from contextlib import ExitStack

import pytest

from fairwarning.core.commands import Delete
from fairwarning.core.limits import CONNECTIONS_OF_MACHINE
from fairwarning.metadata.connection import MetadataConnection
from fairwarning.metadata.new_connections import NewConnections
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.conftest import MakeEndpoint
from tests.hostile.preparation import Watch, prepare
from tests.hostile.wire import POLL, Client, Reply, get

pytestmark = pytest.mark.spec("M17")

LAST = get("Connection: close")
WRONG = get("Connection: close", target="/wrong")


def fetch(endpoint: EndpointHarness, request: bytes, machine: str = "av_0") -> list[Reply]:
    """Connect and send a request before the endpoint accepts; return all responses."""
    with endpoint.stalled():
        client = Client(endpoint.open(machine))
        client.send(request)
    with client:
        return client.replies()


def forbid_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the test fail if the endpoint opens a connection."""
    monkeypatch.setattr(NewConnections, "_open", None)


def test_a_cached_poll_needs_no_connection(
    make_endpoint: MakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second such poll gets the response of the first, and is counted as a poll."""
    with make_endpoint() as endpoint, Watch(endpoint) as watch:
        prepare(endpoint)
        (first,) = fetch(endpoint, LAST)
        endpoint.tick()
        before = endpoint.server.counts.polls, endpoint.server.accepted
        forbid_connections(monkeypatch)
        (second,) = fetch(endpoint, LAST)
        endpoint.tick()
        assert (second.status, second.closes, second.body) == (200, True, first.body)
        assert (endpoint.server.counts.polls, endpoint.server.accepted) == (
            before[0] + 1,
            before[1] + 1,
        )
        assert endpoint.connections == []
        assert watch.seen == []


def test_the_connection_limit(make_endpoint: MakeEndpoint) -> None:
    """A machine that has all its connections open gets 429, as on any other connection."""
    with make_endpoint() as endpoint, ExitStack() as stack, Watch(endpoint) as watch:
        prepare(endpoint)
        assert [reply.status for reply in fetch(endpoint, LAST)] == [200]
        endpoint.wait_until(lambda: not endpoint.connections)  # of `prepare`
        clients = [
            stack.enter_context(Client(endpoint.open("av_0")))
            for _ in range(CONNECTIONS_OF_MACHINE)
        ]
        endpoint.wait_until(lambda: len(endpoint.connections) == CONNECTIONS_OF_MACHINE)
        assert [reply.status for reply in fetch(endpoint, LAST)] == [429]
        clients.pop().sock.close()
        endpoint.wait_until(lambda: len(endpoint.connections) == CONNECTIONS_OF_MACHINE - 1)
        assert [reply.status for reply in fetch(endpoint, LAST)] == [200]
        assert watch.seen == []


def test_many_short_connections(make_endpoint: MakeEndpoint) -> None:
    """A connection that has closed does not count, however many arrive at once."""
    with make_endpoint() as endpoint, ExitStack() as stack:
        prepare(endpoint)
        endpoint.wait_until(lambda: not endpoint.connections)  # of `prepare`
        with endpoint.stalled():
            clients = [
                stack.enter_context(Client(endpoint.open("av_0")))
                for _ in range(3 * CONNECTIONS_OF_MACHINE)
            ]
            for client in clients:
                client.send(WRONG)
        assert {client.reply().status for client in clients} == {404}
        assert endpoint.server.counts.refused.keys() == {"path"}


def test_connections_that_their_clients_have_closed(make_endpoint: MakeEndpoint) -> None:
    """They do not count either, though the endpoint has not read their end yet."""
    with make_endpoint() as endpoint:
        prepare(endpoint)
        endpoint.wait_until(lambda: not endpoint.connections)  # of `prepare`
        with endpoint.stalled():
            for _ in range(3 * CONNECTIONS_OF_MACHINE):
                with Client(endpoint.open("av_0")) as gone:
                    gone.send(POLL)
            client = Client(endpoint.open("av_0"))
            client.send(POLL)
        with client:
            assert client.reply().status == 200
        assert not endpoint.server.counts.refused


def test_changes_are_seen_by_the_next_poll(make_endpoint: MakeEndpoint) -> None:
    """It gets the new document; the cached request of a deleted machine is refused."""
    with make_endpoint() as endpoint:
        prepare(endpoint)
        for _ in range(2):
            (before,) = fetch(endpoint, LAST)
        endpoint.freeze("av_0")
        (after,) = fetch(endpoint, LAST)
        assert len(after.json["Events"]) == len(before.json["Events"]) + 1
        endpoint.do(Delete(scope="av", operation="delete", machines=("av_0",)))
        endpoint.advance(3600)
        assert [reply.status for reply in fetch(endpoint, LAST)] == [404]


@pytest.mark.parametrize("sent", [0, 1, 200])
def test_a_response_that_the_socket_does_not_take_at_once(
    make_endpoint: MakeEndpoint, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    """The client gets all of it, in order, and then the end of the connection."""

    class SlowSocket(socket.SocketType):
        """Sends a few bytes the first time, as if its buffer were full."""

        slow = True

        def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
            if not self.slow:
                return super().send(data, flags)
            self.slow = False
            if not sent:
                raise BlockingIOError
            return super().send(data[:sent], flags)

    with make_endpoint() as endpoint:
        prepare(endpoint)
        (whole,) = fetch(endpoint, LAST)
        monkeypatch.setattr("fairwarning.metadata.new_connections.SocketType", SlowSocket)
        (pieces,) = fetch(endpoint, LAST)
        assert (pieces.body, pieces.closes) == (whole.body, True)
        endpoint.wait_until(lambda: not endpoint.connections)


def test_a_request_that_makes_the_endpoint_fail(
    make_endpoint: MakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is closed, the failure is logged, and the next client is served."""
    with make_endpoint() as endpoint, Watch(endpoint) as watch:
        prepare(endpoint)
        with monkeypatch.context() as patch:
            patch.setattr(MetadataConnection, "data_received", None)
            assert fetch(endpoint, POLL) == []
        assert [reply.status for reply in fetch(endpoint, LAST)] == [200]
        assert watch.seen == ["a connection failed unexpectedly; closing it"]
        endpoint.wait_until(lambda: not endpoint.connections)
