"""Long polls: held until the document is another, or the seconds have passed (M18)."""

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


def _on(endpoint: EndpointHarness, machines: int = 1, scope: str = "db") -> None:
    endpoint.make(scope, machines)
    endpoint.get(f"{scope}_0")


def _hold(
    endpoint: EndpointHarness, machine: str, wait: int = 300, tags: str = '"1"'
) -> HTTPConnection:
    """A long poll that the server holds."""
    before = endpoint.call(lambda: endpoint.server.counts.held)
    connection = endpoint.begin(machine, more=f"&wait={wait}", **{KNOWN: tags})
    endpoint.wait_until(lambda: endpoint.server.counts.held == before + 1)
    assert not select.select([connection.sock], [], [], 0)[0]
    return connection


def _end(connection: HTTPConnection) -> Response:
    answer = receive(connection)
    connection.close()
    return answer


def _nothing_is_left(endpoint: EndpointHarness, scope: str = "db") -> bool:
    published = endpoint.fleet.documents.get(scope)
    return endpoint.server.counts.held == 0 and published is not None and not published._listeners


def test_held_until_the_document_changes() -> None:
    """The answer comes with the change, and is the new document."""
    with EndpointHarness() as endpoint:
        _on(endpoint)
        connection = _hold(endpoint, "db_0")
        endpoint.advance(3600)
        assert endpoint.call(lambda: endpoint.server.counts.held) == 1
        event = endpoint.restart("db_0")
        answer = _end(connection)
        assert (answer.status, answer.headers["etag"]) == (200, '"2"')
        assert [shown["EventId"] for shown in answer.json["Events"]] == [event.id]
        assert endpoint.call(lambda: _nothing_is_left(endpoint))


def test_304_when_the_seconds_pass() -> None:
    """Nothing has changed: 304, and the connection goes on."""
    with EndpointHarness() as endpoint:
        _on(endpoint)
        connection = _hold(endpoint, "db_0", wait=1)
        answer = receive(connection)
        assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", '"1"')
        assert endpoint.call(lambda: _nothing_is_left(endpoint))
        assert poll(connection).status == 200


@pytest.mark.parametrize("version", ["2017-03-01", "2017-08-01", "2019-08-01", "2020-07-01"])
def test_every_version_may_wait(version: str) -> None:
    """Each is answered with its own view of the new document."""
    with EndpointHarness() as endpoint:
        _on(endpoint)
        connection = endpoint.begin("db_0", version, "&wait=300", **HAVE_1)
        endpoint.wait_until(lambda: endpoint.server.counts.held == 1)
        endpoint.restart("db_0")
        assert _end(connection).body == endpoint.get("db_0", version).body


@pytest.mark.parametrize("tags", ['"1"', "1", 'W/"1"', '"7", "1"', "*"])
def test_known_in_whatever_spelling(tags: str) -> None:
    """What would give 304 is held."""
    with EndpointHarness() as endpoint:
        _on(endpoint)
        connection = _hold(endpoint, "db_0", tags=tags)
        endpoint.restart("db_0")
        answer = _end(connection)
        assert answer.status == (304 if tags == "*" else 200)
        assert answer.headers["etag"] == '"2"'


@pytest.mark.parametrize("headers", [{}, {KNOWN: "0"}, {KNOWN: '"2"'}, {KNOWN: "nonsense"}])
def test_who_does_not_have_it_is_answered_at_once(headers: dict[str, str]) -> None:
    """Without If-None-Match, or with another's, there is nothing to wait for."""
    with EndpointHarness() as endpoint:
        _on(endpoint)
        assert endpoint.get("db_0", more="&wait=300", **headers).json["DocumentIncarnation"] == 1
        assert endpoint.call(lambda: _nothing_is_left(endpoint))


def test_the_first_request_of_all() -> None:
    """It enables the feature and is answered, even if it says that it may wait."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        answer = endpoint.get("db_0", more="&wait=300", **{KNOWN: "0"})
        assert (answer.status, answer.json["DocumentIncarnation"]) == (200, 1)


def test_zero_is_no_wait() -> None:
    """`wait=0` is a poll like any other."""
    with EndpointHarness() as endpoint:
        _on(endpoint)
        assert endpoint.get("db_0", more="&wait=0", **HAVE_1).status == 304


@pytest.mark.parametrize(
    "wait",
    ["", "-1", "+1", "1.5", "301", "99999999999", "1e2", "ten", "0x1", "%D9%A1", "1%20", "1s"],
)
def test_wrong_seconds(wait: str) -> None:
    """Whole seconds, 0 to 300; anything else is a bad request and says so."""
    with EndpointHarness() as endpoint:
        _on(endpoint)
        answer = endpoint.get("db_0", more=f"&wait={wait}", **HAVE_1)
        assert answer.status == 400
        assert "wait" in answer.error


def test_one_change_wakes_all() -> None:
    """However many of a scope's machines wait, all have the new document; other scopes wait on."""
    with EndpointHarness() as endpoint:
        _on(endpoint, 40)
        _on(endpoint, scope="web")
        other = _hold(endpoint, "web_0")
        waiting = [_hold(endpoint, f"db_{n}") for n in range(40)]
        waiting += [_hold(endpoint, "db_0") for _ in range(5)]
        endpoint.restart("db_7")
        answers = [_end(connection) for connection in waiting]
        assert {answer.status for answer in answers} == {200}
        assert len({answer.body for answer in answers}) == 1
        assert endpoint.call(lambda: endpoint.server.counts.held) == 1
        endpoint.restart("web_0")
        assert _end(other).status == 200


def test_what_is_not_seen_wakes_nobody() -> None:
    """A change of the scope that does not show in the document is none."""
    with EndpointHarness() as endpoint:
        _on(endpoint)
        connection = _hold(endpoint, "db_0")
        endpoint.create(AddMachines(scope="db", machines=(Machine(name="db_1"),)))
        endpoint.get("db_1")
        assert endpoint.call(lambda: endpoint.server.counts.held) == 1
        endpoint.restart("db_1")
        assert _end(connection).json["DocumentIncarnation"] == 2


def test_who_hangs_up_leaves_nothing_behind() -> None:
    """Neither a count, nor a follower, nor a timer, nor a connection, nor what a change trips."""
    with EndpointHarness() as endpoint:
        _on(endpoint, 3)
        waiting = [_hold(endpoint, f"db_{n}") for n in range(3)]
        timers = endpoint.call(lambda: [one._timer for one in endpoint.connections])
        for connection in waiting[:2]:
            connection.close()
        endpoint.wait_until(lambda: endpoint.server.counts.held == 1)
        waiting[2].close()
        endpoint.wait_until(lambda: _nothing_is_left(endpoint) and not endpoint.connections)
        assert [timer.cancelled() for timer in timers if timer] == [True] * 3
        endpoint.restart("db_0")
        assert endpoint.get("db_1").json["DocumentIncarnation"] == 2


def test_a_request_behind_a_held_one_waits_its_turn() -> None:
    """Answers keep the order of the requests."""
    with EndpointHarness() as endpoint:
        _on(endpoint)
        target = f"{EVENTS}?api-version=2020-07-01"
        with endpoint.open("db_0") as client:
            held = raw_request(f"{target}&wait=300", 'If-None-Match: "1"')
            client.sendall(held + raw_request("/nowhere"))
            endpoint.wait_until(lambda: endpoint.server.counts.held == 1)
            endpoint.restart("db_0")
            read = b""
            while read.count(b"HTTP/1.1 ") < 2:
                read += client.recv(65536)
        assert [part[:3] for part in read.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404"]


def test_a_held_connection_is_not_idle() -> None:
    """It outlasts the time after which silent connections are closed, and goes on after it."""
    with EndpointHarness() as endpoint:
        endpoint.stop_ticking()
        _on(endpoint)
        connection = _hold(endpoint, "db_0")
        endpoint.tick(299)
        endpoint.restart("db_0")
        assert receive(connection).status == 200
        endpoint.tick(2)
        assert poll(connection).json["DocumentIncarnation"] == 2


def test_a_machine_that_is_switched_off_meanwhile() -> None:
    """Its held request tells it nothing more once there is news."""
    with EndpointHarness() as endpoint:
        _on(endpoint, 2)
        connection = _hold(endpoint, "db_0")
        endpoint.do(Deallocate(scope="db", operation="off", machines=("db_0",)))
        endpoint.advance(60)
        endpoint.restart("db_1")
        answer = _end(connection)
        assert answer.status == 404
        assert answer.error


def test_a_long_poll_counts_as_one() -> None:
    """It is one request of its machine's rate."""
    with EndpointHarness(MetadataSettings(requests_per_second=5)) as endpoint:
        endpoint.stop_ticking()
        _on(endpoint)
        for incarnation in range(1, 9):
            connection = _hold(endpoint, "db_0", tags=str(incarnation))
            event = endpoint.restart("db_0") if incarnation % 3 == 1 else None
            if event is None:
                endpoint.advance(15 * 60)
            assert _end(connection).json["DocumentIncarnation"] == incarnation + 1
        assert endpoint.get("db_0").status == 200
        assert endpoint.get("db_0").status == 429


def test_a_long_poll_is_counted_once() -> None:
    """However long it was held: one document sent, or found unchanged."""
    with EndpointHarness() as endpoint:
        _on(endpoint)
        endpoint.tick()
        before = endpoint.call(lambda: endpoint.server.counts.polls)
        connection = _hold(endpoint, "db_0")
        endpoint.restart("db_0")
        assert _end(connection).status == 200
        endpoint.tick()
        assert endpoint.call(lambda: endpoint.server.counts.polls) == before + 1


def test_the_cost_of_a_held_request() -> None:
    """Less than 10 KiB of memory each, its connection included, and the client's side too."""
    many = 200
    with EndpointHarness(MetadataSettings(connections_of_machine=many + 1)) as endpoint:
        _on(endpoint)
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
        endpoint.wait_until(lambda: _nothing_is_left(endpoint))
        assert used / many < 10 * 1024
