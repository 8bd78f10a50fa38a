import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from fairwarning.service.config.settings import MetadataSettings
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.preparation import connect, connections, prepare
from tests.hostile.wire import POLL, Client

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


@pytest.mark.spec("M17")
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


@pytest.mark.spec("M17")
def test_connection_limit_of_an_unidentified_caller(endpoint: EndpointHarness) -> None:
    """Connections beyond the limit are refused, whichever sends a request first."""
    prepare(endpoint)
    endpoint.call(endpoint.server.callers.known.clear)
    with connect_all(endpoint, *["av_0"] * (MAX_CONNECTIONS + 1)) as clients:
        for client in clients:
            client.send(POLL)
        replies = [[reply.status for reply in client.finish()] for client in clients]
    assert sorted(replies) == [[200]] * MAX_CONNECTIONS + [[429]]


@pytest.mark.spec("M17", "M22")
def test_connection_limit_of_an_unknown_caller() -> None:
    """An address without a machine cannot use up all connections."""
    with EndpointHarness() as endpoint, ExitStack() as clients:
        endpoint.make("av", 1)
        for _ in range(3 * MAX_CONNECTIONS):
            sock = socket.create_connection(("127.200.0.1", endpoint.port))
            clients.enter_context(Client(sock)).send(POLL)
        endpoint.wait_until(lambda: endpoint.server.accepted == 3 * MAX_CONNECTIONS)
        assert len(connections(endpoint)) <= MAX_CONNECTIONS
