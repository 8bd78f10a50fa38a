"""The feature goes on with the first GET and off after a day without one (M14, M15)."""

import select
from http.client import HTTPConnection

import pytest

from fairwarning.core.commands import Degrade, Restart
from fairwarning.core.model import Operation, OperationStatus, Rules
from tests.fixtures.endpoint import EVENTS, EndpointHarness, poll
from tests.fixtures.fleet import NOON
from tests.fixtures.http import receive, send

HOUR = 3600
DAY = 24 * HOUR
EMPTY = {"DocumentIncarnation": 1, "Events": []}
INSTANCE = "/metadata/instance?api-version=2021-02-01"


def _enabled(endpoint: EndpointHarness, scope: str = "db") -> bool:
    return endpoint.scope(scope).enabled


def _wait_until_on(endpoint: EndpointHarness) -> None:
    """The first GET has arrived, and its scope is enabled."""
    endpoint.wait_until(
        lambda: bool((seen := endpoint.fleet.documents.get("db")) and seen.incarnation)
    )


def _is_held(endpoint: EndpointHarness, connection: HTTPConnection) -> bool:
    """Whether a request is under way at the server and nothing was answered yet."""
    busy = endpoint.call(lambda: any(one._busy for one in endpoint.connections))
    return busy and not select.select([connection.sock], [], [], 0)[0]


@pytest.mark.spec("M14")
def test_the_first_get_enables() -> None:
    """Any machine's GET turns the feature on for its scope, and for no other."""
    with EndpointHarness() as endpoint:
        endpoint.make("db", 2)
        endpoint.make("web")
        assert not _enabled(endpoint)
        assert endpoint.get("db_1").json == EMPTY
        assert _enabled(endpoint)
        assert endpoint.get("db_0").json == EMPTY
        assert not _enabled(endpoint, "web")


@pytest.mark.spec("M14")
@pytest.mark.parametrize("delay", [1, 120])
def test_the_first_answer_is_held(delay: int) -> None:
    """With `enable_delay` the first GET waits so long, and is answered then, not failed."""
    with EndpointHarness() as endpoint:
        endpoint.make("db", rules=Rules(enable_delay_seconds=delay))
        connection = endpoint.begin("db_0")
        _wait_until_on(endpoint)
        assert _is_held(endpoint, connection)
        endpoint.advance(delay - 0.5)
        assert _is_held(endpoint, connection)
        endpoint.advance(0.5)
        assert receive(connection).json == EMPTY
        assert poll(connection).json == EMPTY


@pytest.mark.spec("M14")
def test_others_wait_for_the_same_moment() -> None:
    """Who asks while the feature comes up is held as well, and answered with the first."""
    with EndpointHarness() as endpoint:
        endpoint.make("db", 2, rules=Rules(enable_delay_seconds=60))
        first = endpoint.begin("db_0")
        _wait_until_on(endpoint)
        endpoint.advance(30)
        second = endpoint.begin("db_1", "2019-01-01")
        endpoint.wait_until(lambda: sum(one._busy for one in endpoint.connections) == 2)
        assert _is_held(endpoint, second)
        endpoint.advance(30)
        for connection in (first, second):
            assert receive(connection).json == EMPTY
            connection.close()


@pytest.mark.spec("M14")
def test_a_held_connection_is_not_an_idle_one() -> None:
    """However long the first answer takes, the connection is good for the next poll after it."""
    with EndpointHarness() as endpoint:
        endpoint.stop_ticking()
        endpoint.make("db", rules=Rules(enable_delay_seconds=120))
        connection = endpoint.begin("db_0")
        _wait_until_on(endpoint)
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
def test_clients_with_little_patience() -> None:
    """Who hangs up and asks again, over and over, is held each time, never failed."""
    with EndpointHarness() as endpoint:
        endpoint.make("db", rules=Rules(enable_delay_seconds=120))
        for times in range(1, 31):
            connection = endpoint.begin("db_0")
            _wait_for_connection(endpoint, times)
            if times == 1:
                _wait_until_on(endpoint)  # from here on it takes 120 s
            connection.close()
            endpoint.advance(1)
            endpoint.tick()  # they may linger for some seconds, in case they still read
        connection = endpoint.begin("db_0")
        endpoint.advance(90)
        answer = receive(connection)
        connection.close()
        assert (answer.status, answer.json) == (200, EMPTY)
        endpoint.wait_until(lambda: not endpoint.connections)


@pytest.mark.spec("M14")
def test_a_day_of_silence_disables() -> None:
    """24 h without a GET from any machine of the scope turn it off, and not a second less."""
    with EndpointHarness() as endpoint:
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
def test_polls_keep_it_on(every: int, known: str) -> None:
    """Nothing happens for days but polls, answered from memory with 200 or 304: it stays on."""
    with EndpointHarness() as endpoint:
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


@pytest.mark.spec("M14")
def test_polls_by_heart_keep_it_on() -> None:
    """The same for bytes that were seen before, which no check and no fleet hears of."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        connection = endpoint.client("db_0")
        for _ in range(12):
            assert poll(connection).json == EMPTY
            endpoint.advance(6 * HOUR)
            assert _enabled(endpoint)


@pytest.mark.spec("M14")
def test_any_machine_keeps_it_on() -> None:
    """It need not be the one that began."""
    with EndpointHarness() as endpoint:
        endpoint.make("db", 3)
        endpoint.get("db_0")
        for n in (1, 2, 1, 2):
            endpoint.advance(DAY - 1)
            assert endpoint.get(f"db_{n}").json == EMPTY
        assert _enabled(endpoint)


@pytest.mark.spec("M14", "M19")
def test_what_is_no_poll_does_not_keep_it_on() -> None:
    """Instance metadata, approvals and refused requests are no GET of the document."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.get("db_0")
        for _ in range(4):
            endpoint.advance(6 * HOUR - 1)
            assert endpoint.send_from("db_0", "GET", INSTANCE, {"Metadata": "true"}).status == 200
            assert endpoint.get("db_0", "latest").status == 400
            assert endpoint.approve("db_0", "0" * 8 + "-0000" * 3 + "-" + "0" * 12).status == 400
        endpoint.advance(4)
        assert not _enabled(endpoint)


@pytest.mark.spec("M14", "M19")
def test_instance_metadata_enables_nothing() -> None:
    """Reading about itself is not asking for events."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        for target in (INSTANCE, "/metadata/versions"):
            assert endpoint.send_from("db_0", "GET", target, {"Metadata": "true"}).status == 200
        assert not _enabled(endpoint)


@pytest.mark.spec("M14")
def test_the_silence_is_a_setting() -> None:
    """A scope may be given another time than a day."""
    with EndpointHarness() as endpoint:
        endpoint.make("db", rules=Rules(idle_seconds=600))
        endpoint.get("db_0")
        endpoint.advance(599)
        assert endpoint.get("db_0").json == EMPTY
        endpoint.advance(599)
        assert _enabled(endpoint)
        endpoint.advance(1)
        assert not _enabled(endpoint)


@pytest.mark.spec("M15")
def test_while_it_is_off_nothing_is_announced() -> None:
    """An operation runs at once; who asks later finds no trace of it."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.do(Restart(scope="db", operation="op", machines=("db_0",)))
        assert endpoint.get("db_0").json == EMPTY
        endpoint.advance(60)
        done = endpoint.run(endpoint.fleet.reader.read(Operation, "op"))
        assert done is not None
        assert done.status is OperationStatus.SUCCEEDED
        assert endpoint.get("db_0").json == EMPTY


@pytest.mark.spec("M15", "M14", "M11")
def test_events_outlive_the_feature() -> None:
    """What was announced before the silence runs out normally; who asks again sees it, at 1."""
    with EndpointHarness() as endpoint:
        endpoint.make("db")
        endpoint.get("db_0")
        late = int(NOON) + 3 * DAY
        endpoint.do(Degrade(scope="db", operation="op", machines=("db_0",), not_before=late))
        (before,) = endpoint.get("db_0").json["Events"]
        endpoint.advance(2 * DAY)
        assert not _enabled(endpoint)
        answer = endpoint.get("db_0")
        assert answer.json == {"DocumentIncarnation": 1, "Events": [before]}
        endpoint.advance(DAY - 1)
        assert endpoint.get("db_0").body == answer.body
        endpoint.advance(1)
        (after,) = endpoint.get("db_0").json["Events"]
        assert (after["EventId"], after["EventStatus"]) == (before["EventId"], "Started")
        endpoint.advance(240)
        assert endpoint.get("db_0").json == {"DocumentIncarnation": 3, "Events": []}
