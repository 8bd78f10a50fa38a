import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from fairwarning.service.config.settings import MetadataSettings
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.preparation import client_of, connections, prepare
from tests.hostile.wire import POLL, Client

MOST = 16  # connections of one machine


@contextmanager
def crowd(endpoint: EndpointHarness, *machines: str) -> Iterator[list[Client]]:
    """A connection of each of these, in this order; a machine may be named often."""
    with ExitStack() as all_of_them:
        yield [all_of_them.enter_context(client_of(endpoint, machine)) for machine in machines]


@pytest.mark.spec("M17")
def test_a_machine_has_so_many_connections() -> None:
    """One connection too many of a machine is refused; the others, and other machines, are not."""
    with EndpointHarness() as endpoint:
        prepare(endpoint)
        with crowd(endpoint, *["av_0"] * MOST) as clients:
            assert_refused(endpoint, 429)
            assert endpoint.get("av_1").status == 200
            assert [client.ask(POLL).status for client in clients] == [200] * MOST
            clients[0].sock.close()
            endpoint.wait_until(lambda: len(endpoint.connections) == MOST - 1)
            assert endpoint.get("av_0").status == 200
        assert endpoint.server.counts.refused == {"connections": 1}


def assert_refused(endpoint: EndpointHarness, status: int) -> None:
    """One more connection of the first machine is told to come again, and closed."""
    with client_of(endpoint) as extra:
        (refusal,) = extra.replies()
    assert (refusal.status, refusal.closes) == (status, True)
    assert refusal.headers["retry-after"] == "1"
    assert "error" in refusal.json


@pytest.mark.spec("M17")
def test_there_are_so_many_connections_in_all() -> None:
    """When all places are taken nobody else gets in; a place that is free is used again."""
    with EndpointHarness(MetadataSettings(connections=20)) as endpoint:
        prepare(endpoint)
        with crowd(endpoint, *["av_0", "av_1"] * 10) as clients:
            assert_refused(endpoint, 503)
            assert [client.ask(POLL).status for client in clients] == [200] * 20
            clients[0].sock.close()
            endpoint.wait_until(lambda: len(endpoint.connections) == 19)
            assert endpoint.get("av_0").status == 200
        assert endpoint.server.counts.refused == {"connections": 1}


@pytest.mark.spec("M17")
def test_a_machine_that_was_not_heard_of_is_limited_too() -> None:
    """Each connection has one answer, and past the limit that is a refusal, whoever asks first."""
    with EndpointHarness() as endpoint:
        prepare(endpoint)
        endpoint.call(endpoint.server.callers.known.clear)
        with crowd(endpoint, *["av_0"] * (MOST + 1)) as clients:
            for client in clients:
                client.send(POLL)
            answers = [[answer.status for answer in client.finish()] for client in clients]
        assert sorted(answers) == [[200]] * MOST + [[429]]


@pytest.mark.spec("M17")
def test_silence_takes_no_more_than_its_share() -> None:
    """A machine that has never said anything holds no more connections than one that polls."""
    with EndpointHarness() as endpoint:
        endpoint.make("av", 1)
        with crowd(endpoint, *["av_0"] * 3 * MOST):
            assert len(connections(endpoint)) <= MOST


@pytest.mark.spec("M17", "M22")
def test_an_unknown_caller_takes_no_more_than_its_share() -> None:
    """Nor does an address of no machine, or it could take the place of everybody."""
    with EndpointHarness() as endpoint, ExitStack() as clients:
        endpoint.make("av", 1)
        for _ in range(3 * MOST):
            sock = socket.create_connection(("127.200.0.1", endpoint.port))
            clients.enter_context(Client(sock)).send(POLL)
        endpoint.wait_until(lambda: endpoint.server.accepted == 3 * MOST)
        assert len(connections(endpoint)) <= MOST
