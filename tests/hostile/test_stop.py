"""Connections and requests that arrive just before a listener or the whole endpoint stops."""

import asyncio
import socket

import pytest

from fairwarning.metadata.callers import for_machine
from fairwarning.metadata.listeners import open_tcp
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.conftest import MakeEndpoint
from tests.hostile.preparation import connect, prepare
from tests.hostile.wire import POLL, Client

pytestmark = pytest.mark.spec("M20")

TURNS = range(5)  # of the event loop, from the arrival of a request until it is answered


async def stop_after(endpoint: EndpointHarness, turns: int) -> None:
    """Stop the endpoint after some turns of its event loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
    await endpoint.server.stop()


@pytest.mark.parametrize("turns", TURNS)
def test_requests_on_new_connections(make_endpoint: MakeEndpoint, turns: int) -> None:
    """A stop answers a request that has arrived, whether its connection is accepted or not."""
    with make_endpoint() as endpoint:
        prepare(endpoint)
        with endpoint.stalled():
            clients = [Client(endpoint.open(machine)) for machine in ("av_0", "av_1", "av_1")]
            for client in clients:
                client.send(POLL)
            stopped = endpoint.start(stop_after(endpoint, turns))
        for client in clients:
            with client:
                assert [reply.status for reply in client.replies()] == [200]
        stopped.result()
        with pytest.raises(ConnectionRefusedError):
            endpoint.open("av_0")


def test_requests_on_idle_connections(make_endpoint: MakeEndpoint) -> None:
    """A stop answers a request that has arrived on a connection that was idle before."""
    with make_endpoint() as endpoint:
        prepare(endpoint)
        with connect(endpoint) as client:
            assert client.request(POLL).status == 200
            with endpoint.stalled():
                client.send(POLL)
                stopped = endpoint.start(endpoint.server.stop())
            assert [reply.status for reply in client.replies()] == [200]
        stopped.result()


@pytest.mark.parametrize("turns", TURNS)
def test_connections_of_a_closed_listener(make_endpoint: MakeEndpoint, turns: int) -> None:
    """A connection through a listener that closes does not stay open, accepted or not."""
    with make_endpoint() as endpoint:
        prepare(endpoint)
        sock = open_tcp("127.0.0.1", 0, exact=True)
        port = sock.getsockname()[1]
        listener = endpoint.run(endpoint.server.listen(sock, for_machine("av", "av_0")))

        async def close() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            endpoint.server.close(listener)

        with endpoint.stalled():
            client = Client(socket.create_connection(("127.0.0.1", port)))
            client.send(POLL[:20])
            closed = endpoint.start(close())
        with client:
            assert client.replies() == []
        closed.result()
        assert endpoint.connections == []
