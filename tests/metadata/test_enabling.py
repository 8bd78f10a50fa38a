"""The first GET enables the feature; a day without one disables it (M14, M15)."""

import select
from http.client import HTTPConnection

import pytest

from fairwarning.core.commands import Degrade
from fairwarning.core.model import Rules
from tests.fixtures.endpoint import EVENTS, EndpointHarness, poll
from tests.fixtures.fleet import NOON
from tests.fixtures.http import receive, send

HOUR = 3600
DAY = 24 * HOUR
EMPTY = {"DocumentIncarnation": 1, "Events": []}
INSTANCE = "/metadata/instance?api-version=2021-02-01"


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


@pytest.mark.spec("M14")
def test_the_first_get_enables(endpoint: EndpointHarness) -> None:
    """A GET from any machine enables the feature for its scope, and for no other."""
    endpoint.make("db", 2)
    endpoint.make("web")
    assert not _enabled(endpoint)
    assert endpoint.get("db_1").json == EMPTY
    assert _enabled(endpoint)
    assert endpoint.get("db_0").json == EMPTY
    assert not _enabled(endpoint, "web")


@pytest.mark.spec("M14")
@pytest.mark.parametrize("delay", [1, 120])
def test_the_first_response_is_held(endpoint: EndpointHarness, delay: int) -> None:
    """With `enable_delay` the first GET waits that long, and then succeeds."""
    endpoint.make("db", rules=Rules(enable_delay_seconds=delay))
    connection = endpoint.begin("db_0")
    _wait_until_enabled(endpoint)
    assert _is_held(endpoint, connection)
    endpoint.advance(delay - 0.5)
    assert _is_held(endpoint, connection)
    endpoint.advance(0.5)
    assert receive(connection).json == EMPTY
    assert poll(connection).json == EMPTY


@pytest.mark.spec("M14")
def test_a_held_connection_is_not_an_idle_one(endpoint: EndpointHarness) -> None:
    """However long the first response takes, the connection can be used for the next poll."""
    endpoint.stop_ticking()
    endpoint.make("db", rules=Rules(enable_delay_seconds=120))
    connection = endpoint.begin("db_0")
    _wait_until_enabled(endpoint)
    endpoint.tick(120)
    endpoint.advance(120)
    assert receive(connection).json == EMPTY
    endpoint.tick()
    target = f"{EVENTS}?api-version=2020-07-01"
    before = endpoint.call(lambda: endpoint.server.accepted)
    assert send(connection, "GET", target, {"Metadata": "true"}).json == EMPTY
    assert endpoint.call(lambda: endpoint.server.accepted) == before


def _wait_for_connection(endpoint: EndpointHarness, number: int) -> None:
    endpoint.wait_until(lambda: endpoint.server.accepted == number)


@pytest.mark.spec("M14")
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
    assert (response.status, response.json) == (200, EMPTY)
    endpoint.wait_until(lambda: not endpoint.connections)


@pytest.mark.spec("M14")
def test_a_day_without_polls_disables(endpoint: EndpointHarness) -> None:
    """The feature is disabled exactly 24 h after the last GET of the scope."""
    endpoint.make("db", 2)
    endpoint.get("db_0")
    endpoint.advance(DAY - 1)
    assert _enabled(endpoint)
    endpoint.advance(1)
    assert not _enabled(endpoint)
    assert endpoint.get("db_1").json == EMPTY
    assert _enabled(endpoint)


@pytest.mark.spec("M14")
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


@pytest.mark.spec("M14", "M19")
def test_other_requests_do_not_keep_it_enabled(endpoint: EndpointHarness) -> None:
    """Instance metadata, approvals and refused requests do not count as polls."""
    endpoint.make("db")
    endpoint.get("db_0")
    for _ in range(4):
        endpoint.advance(6 * HOUR - 1)
        assert endpoint.send_from("db_0", "GET", INSTANCE, {"Metadata": "true"}).status == 200
        assert endpoint.get("db_0", "latest").status == 400
        assert endpoint.approve("db_0", "0" * 8 + "-0000" * 3 + "-" + "0" * 12).status == 400
    endpoint.advance(4)
    assert not _enabled(endpoint)


@pytest.mark.spec("M15", "M14", "M11")
def test_events_outlive_the_feature(endpoint: EndpointHarness) -> None:
    """Events announced before disabling run normally; a later poll shows them at incarnation 1."""
    endpoint.make("db")
    endpoint.get("db_0")
    late = int(NOON) + 3 * DAY
    endpoint.do(Degrade(scope="db", operation="op", machines=("db_0",), not_before=late))
    (before,) = endpoint.get("db_0").json["Events"]
    endpoint.advance(2 * DAY)
    assert not _enabled(endpoint)
    response = endpoint.get("db_0")
    assert response.json == {"DocumentIncarnation": 1, "Events": [before]}
    endpoint.advance(DAY - 1)
    assert endpoint.get("db_0").body == response.body
    endpoint.advance(1)
    (after,) = endpoint.get("db_0").json["Events"]
    assert (after["EventId"], after["EventStatus"]) == (before["EventId"], "Started")
    endpoint.advance(240)
    assert endpoint.get("db_0").json == {"DocumentIncarnation": 3, "Events": []}
