"""Requests that arrive just before the endpoint stops."""

import asyncio
from collections.abc import Callable

import pytest

from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.preparation import connect, prepare
from tests.hostile.wire import POLL, Client

pytestmark = pytest.mark.spec("M20")

MakeEndpoint = Callable[[], EndpointHarness]
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
