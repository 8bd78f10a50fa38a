"""The first GET enables the feature; a day without one disables it (M14, M15)."""

import select
from http.client import HTTPConnection

import pytest

from fairwarning.core.model import Rules
from tests.fixtures.endpoint import EndpointHarness, poll
from tests.fixtures.http import receive
from tests.metadata.conftest import EMPTY, INSTANCE, METADATA

pytestmark = pytest.mark.spec("M14")

HOUR = 3600
DAY = 24 * HOUR


def _enabled(endpoint: EndpointHarness, scope: str = "db") -> bool:
    return endpoint.scope(scope).enabled


def _wait_until_enabled(endpoint: EndpointHarness) -> None:
    """Wait until the first GET has arrived and its scope is enabled."""
    endpoint.wait_until(
        lambda: bool((seen := endpoint.fleet.documents.get("db")) and seen.incarnation)
    )


def _is_held(endpoint: EndpointHarness, connection: HTTPConnection) -> bool:
    """Whether the server is processing a request and has sent no response yet."""
    busy = endpoint.call(lambda: any(connection._busy for connection in endpoint.connections))
    return busy and not select.select([connection.sock], [], [], 0)[0]


def test_the_first_get_enables(endpoint: EndpointHarness) -> None:
    """A GET from any machine enables the feature for its scope, and for no other."""
    endpoint.make("db", 2)
    endpoint.make("web")
    assert not _enabled(endpoint)
    assert endpoint.get("db_1").body == EMPTY
    assert _enabled(endpoint)
    assert endpoint.get("db_0").body == EMPTY
    assert not _enabled(endpoint, "web")


@pytest.mark.parametrize("delay", [1, 120])
def test_the_first_response_is_held(endpoint: EndpointHarness, delay: int) -> None:
    """With `enable_delay` the first GET waits that long, on a connection that is not idle."""
    endpoint.stop_ticking()
    endpoint.make("db", rules=Rules(enable_delay_seconds=delay))
    connection = endpoint.begin("db_0")
    _wait_until_enabled(endpoint)
    assert _is_held(endpoint, connection)
    endpoint.tick(delay)
    endpoint.advance(delay - 0.5)
    assert _is_held(endpoint, connection)
    endpoint.advance(0.5)
    assert receive(connection).body == EMPTY
    endpoint.tick()
    assert poll(connection).body == EMPTY
    assert endpoint.call(lambda: endpoint.server.accepted) == 1


def _wait_for_connection(endpoint: EndpointHarness, number: int) -> None:
    endpoint.wait_until(lambda: endpoint.server.accepted == number)


def test_clients_that_hang_up_and_retry(endpoint: EndpointHarness) -> None:
    """A client that disconnects and retries many times is held each time and never fails."""
    endpoint.make("db", rules=Rules(enable_delay_seconds=120))
    for times in range(1, 31):
        connection = endpoint.begin("db_0")
        _wait_for_connection(endpoint, times)
        if times == 1:
            _wait_until_enabled(endpoint)  # from here on it takes 120 s
        connection.close()
        endpoint.advance(1)
        endpoint.tick()  # a half-closed connection may linger for some seconds
    connection = endpoint.begin("db_0")
    endpoint.advance(90)
    response = receive(connection)
    connection.close()
    assert (response.status, response.body) == (200, EMPTY)
    endpoint.wait_until(lambda: not endpoint.connections)


@pytest.mark.parametrize("every", [6 * HOUR, DAY - 1])
@pytest.mark.parametrize("known", ["0", '"1"'])
def test_polls_keep_it_enabled(endpoint: EndpointHarness, every: int, known: str) -> None:
    """Polls answered from memory with 200 or 304 keep the feature enabled for days."""
    endpoint.make("db", 2)
    connection = endpoint.client("db_0")
    poll(connection)
    for _ in range(12):
        endpoint.advance(every)
        assert poll(connection, **{"If-None-Match": known}).headers["etag"] == '"1"'
        assert _enabled(endpoint)
    connection.close()
    endpoint.advance(DAY - 1)
    assert _enabled(endpoint)
    endpoint.advance(1)
    assert not _enabled(endpoint)


@pytest.mark.spec("M19")
def test_other_requests_do_not_keep_it_enabled(endpoint: EndpointHarness) -> None:
    """Instance metadata, approvals and refused requests do not count as polls."""
    endpoint.make("db")
    endpoint.get("db_0")
    for _ in range(4):
        endpoint.advance(6 * HOUR - 1)
        assert endpoint.send_from("db_0", "GET", INSTANCE, METADATA).status == 200
        assert endpoint.get("db_0", "latest").status == 400
        assert endpoint.approve("db_0", "0" * 8 + "-0000" * 3 + "-" + "0" * 12).status == 400
    endpoint.advance(4)
    assert not _enabled(endpoint)
