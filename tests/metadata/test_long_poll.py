"""Long polls: held until the document changes or the wait is over (M18)."""

import select
import tracemalloc
from http.client import HTTPConnection

import pytest

from fairwarning.core.commands import AddMachines, Deallocate
from fairwarning.core.model import Machine
from fairwarning.service.config.settings import MetadataSettings
from tests.fixtures.endpoint import EVENTS, EndpointHarness, poll, raw_request
from tests.fixtures.http import Response, receive

pytestmark = pytest.mark.spec("M18")

KNOWN = "If-None-Match"
HAVE_1 = {KNOWN: '"1"'}


def _enable(endpoint: EndpointHarness, machines: int = 1, scope: str = "db") -> None:
    endpoint.make(scope, machines)
    endpoint.get(f"{scope}_0")


def _hold(
    endpoint: EndpointHarness, machine: str, wait: int = 300, tags: str = '"1"'
) -> HTTPConnection:
    """Start a long poll and wait until the server holds it."""
    before = endpoint.call(lambda: endpoint.server.counts.held)
    connection = endpoint.begin(machine, more=f"&wait={wait}", **{KNOWN: tags})
    endpoint.wait_until(lambda: endpoint.server.counts.held == before + 1)
    assert not select.select([connection.sock], [], [], 0)[0]
    return connection


def _end(connection: HTTPConnection) -> Response:
    response = receive(connection)
    connection.close()
    return response


def _all_released(endpoint: EndpointHarness, scope: str = "db") -> bool:
    published = endpoint.fleet.documents.get(scope)
    return endpoint.server.counts.held == 0 and published is not None and not published._listeners


def test_held_until_the_document_changes(endpoint: EndpointHarness) -> None:
    """The response comes with the change and is the new document; it is counted as one poll."""
    _enable(endpoint)
    endpoint.tick()
    before = endpoint.call(lambda: endpoint.server.counts.polls)
    connection = _hold(endpoint, "db_0")
    endpoint.advance(3600)
    endpoint.create(AddMachines(scope="db", machines=(Machine(name="db_1"),)))  # is invisible
    assert endpoint.call(lambda: endpoint.server.counts.held) == 1
    event = endpoint.restart("db_0")
    response = _end(connection)
    endpoint.tick()
    assert endpoint.call(lambda: endpoint.server.counts.polls) == before + 1
    assert (response.status, response.headers["etag"]) == (200, '"2"')
    assert [shown["EventId"] for shown in response.json["Events"]] == [event.id]
    assert endpoint.call(lambda: _all_released(endpoint))


def test_304_when_the_wait_is_over(endpoint: EndpointHarness) -> None:
    """Nothing has changed: 304, and the connection stays open."""
    _enable(endpoint)
    connection = _hold(endpoint, "db_0", wait=1)
    response = receive(connection)
    assert (response.status, response.body, response.headers["etag"]) == (304, b"", '"1"')
    assert endpoint.call(lambda: _all_released(endpoint))
    assert poll(connection).status == 200


@pytest.mark.parametrize(
    ("wait", "headers", "status"),
    [
        (300, {}, 200),
        (300, {KNOWN: "0"}, 200),
        (300, {KNOWN: '"2"'}, 200),
        (300, {KNOWN: "nonsense"}, 200),
        (0, HAVE_1, 304),  # a normal poll
    ],
)
@pytest.mark.parametrize("enabled", [True, False])
def test_unknown_document_is_sent_at_once(
    endpoint: EndpointHarness, wait: int, headers: dict[str, str], status: int, enabled: bool
) -> None:
    """Without If-None-Match, or with another incarnation; the first request is never held."""
    endpoint.make("db")
    if enabled:
        endpoint.get("db_0")
    response = endpoint.get("db_0", more=f"&wait={wait}", **headers)
    assert response.status == (status if enabled else 200)
    assert response.headers["etag"] == '"1"'
    assert endpoint.call(lambda: _all_released(endpoint))


@pytest.mark.parametrize(
    "wait",
    ["", "-1", "+1", "1.5", "301", "99999999999", "1e2", "ten", "0x1", "%D9%A1", "1%20", "1s"],
)
def test_invalid_wait(endpoint: EndpointHarness, wait: str) -> None:
    """Only whole seconds from 0 to 300 are valid; any other value gets 400 with a text."""
    _enable(endpoint)
    response = endpoint.get("db_0", more=f"&wait={wait}", **HAVE_1)
    assert response.status == 400
    assert "wait" in response.error


def test_one_change_wakes_all(endpoint: EndpointHarness) -> None:
    """All waiting machines of the scope get the new document; other scopes keep waiting."""
    _enable(endpoint, 40)
    _enable(endpoint, scope="web")
    other = _hold(endpoint, "web_0")
    waiting = [_hold(endpoint, f"db_{n}") for n in range(40)]
    waiting += [_hold(endpoint, "db_0") for _ in range(5)]
    endpoint.restart("db_7")
    responses = [_end(connection) for connection in waiting]
    assert {response.status for response in responses} == {200}
    assert len({response.body for response in responses}) == 1
    assert endpoint.call(lambda: endpoint.server.counts.held) == 1
    endpoint.restart("web_0")
    assert _end(other).status == 200


def test_a_disconnect_releases_everything(endpoint: EndpointHarness) -> None:
    """No count, follower, timer or connection remains, and a later change works."""
    _enable(endpoint, 3)
    waiting = [_hold(endpoint, f"db_{n}") for n in range(3)]
    timers = endpoint.call(lambda: [connection._timer for connection in endpoint.connections])
    for connection in waiting[:2]:
        connection.close()
    endpoint.wait_until(lambda: endpoint.server.counts.held == 1)
    waiting[2].close()
    endpoint.wait_until(lambda: _all_released(endpoint) and not endpoint.connections)
    assert [timer.cancelled() for timer in timers if timer] == [True] * 3
    endpoint.restart("db_0")
    assert endpoint.get("db_1").json["DocumentIncarnation"] == 2


def test_a_held_connection_is_not_idle(endpoint: EndpointHarness) -> None:
    """It outlasts the idle timeout and can be used afterwards."""
    endpoint.stop_ticking()
    _enable(endpoint)
    connection = _hold(endpoint, "db_0")
    endpoint.tick(299)
    endpoint.restart("db_0")
    assert receive(connection).status == 200
    endpoint.tick(2)
    assert poll(connection).json["DocumentIncarnation"] == 2


def test_a_machine_stopped_while_held(endpoint: EndpointHarness) -> None:
    """Its held request gets 404 when the document changes."""
    _enable(endpoint, 2)
    connection = _hold(endpoint, "db_0")
    endpoint.do(Deallocate(scope="db", operation="off", machines=("db_0",)))
    endpoint.advance(60)
    endpoint.restart("db_1")
    response = _end(connection)
    assert response.status == 404
    assert response.error


def test_a_long_poll_is_one_request_for_the_rate_limit() -> None:
    """It counts as one request of its machine."""
    with EndpointHarness(MetadataSettings(requests_per_second=5)) as endpoint:
        endpoint.stop_ticking()
        _enable(endpoint)
        for incarnation in range(1, 9):
            connection = _hold(endpoint, "db_0", tags=str(incarnation))
            event = endpoint.restart("db_0") if incarnation % 3 == 1 else None
            if event is None:
                endpoint.advance(15 * 60)
            assert _end(connection).json["DocumentIncarnation"] == incarnation + 1
        assert endpoint.get("db_0").status == 200
        assert endpoint.get("db_0").status == 429


def test_memory_of_a_held_request() -> None:
    """Less than 10 KiB each, including its connection and the client's side."""
    many = 200
    with EndpointHarness(MetadataSettings(connections_of_machine=many + 1)) as endpoint:
        _enable(endpoint)
        _hold(endpoint, "db_0").close()
        sent = raw_request(f"{EVENTS}?api-version=2020-07-01&wait=300", 'If-None-Match: "1"')
        tracemalloc.start()
        clients = [endpoint.open("db_0") for _ in range(many)]
        for client in clients:
            client.sendall(sent)
        endpoint.wait_until(lambda: endpoint.server.counts.held >= many)
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        for client in clients:
            client.close()
        endpoint.wait_until(lambda: _all_released(endpoint))
        assert used / many < 10 * 1024
