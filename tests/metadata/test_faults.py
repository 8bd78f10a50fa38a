"""Faults on demand: of one machine, a scope or all; for a count or a time (M21)."""

import json
from http.client import HTTPException, IncompleteRead
from time import monotonic
from typing import Any

import pytest

from fairwarning.core.errors import Refused
from fairwarning.service.faults import FaultKind, FaultRule
from tests.fixtures.endpoint import EVENTS, EndpointHarness, poll
from tests.fixtures.http import Response, receive, send

pytestmark = pytest.mark.spec("M21")

POLL = f"{EVENTS}?api-version=2020-07-01"
EMPTY = b'{"DocumentIncarnation":1,"Events":[]}'
STATUSES = {
    FaultKind.NOT_FOUND: 404,
    FaultKind.GONE: 410,
    FaultKind.TOO_MANY: 429,
    FaultKind.ERROR: 500,
}
REACH = pytest.mark.parametrize(
    ("scope", "machine", "hit"),
    [
        ("db", "db_0", {"db_0"}),
        ("db", "", {"db_0", "db_1"}),
        ("", "", {"db_0", "db_1", "web_0"}),
    ],
)


def _fleet(endpoint: EndpointHarness) -> None:
    """Two scopes that are on; each machine has polled on a connection of its own."""
    endpoint.make("db", 2)
    endpoint.make("web")
    for machine in ("db_0", "db_1", "web_0"):
        endpoint.get(machine)


def _put(
    endpoint: EndpointHarness,
    kind: FaultKind,
    scope: str = "",
    machine: str = "",
    **more: Any,  # noqa: ANN401  (any field of a fault)
) -> None:
    fault = FaultRule(kind=kind, scope=scope, machine=machine, **more)
    endpoint.call(lambda: endpoint.server.faults.put(fault))


def _suffers(endpoint: EndpointHarness, machine: str, kind: FaultKind) -> bool:
    """Whether a poll meets this fault; if not, it must be a good answer."""
    before = endpoint.call(lambda: endpoint.server.counts.faults[kind])
    try:
        answer = endpoint.get(machine)
    except (ConnectionError, HTTPException) as error:
        return _broken(kind, error)
    faulty = endpoint.call(lambda: endpoint.server.counts.faults[kind]) > before
    assert faulty == _spoiled(kind, answer) or kind is FaultKind.DELAY
    return faulty


def _broken(kind: FaultKind, error: Exception) -> bool:
    if kind is FaultKind.RESET:
        return isinstance(error, ConnectionResetError)
    assert isinstance(error, IncompleteRead)
    return kind is FaultKind.TRUNCATED and EMPTY.startswith(error.partial)


def _spoiled(kind: FaultKind, answer: Response) -> bool:
    if kind in STATUSES and answer.status == STATUSES[kind]:
        return bool(answer.error)
    assert answer.status == 200
    if kind is FaultKind.EMPTY and answer.body == b"":
        return True
    if kind is FaultKind.CONTROL and answer.body != EMPTY:
        return EMPTY in answer.body and any(byte < 32 for byte in answer.body)
    assert answer.body == EMPTY
    return False


@REACH
@pytest.mark.parametrize("kind", FaultKind)
def test_whom_a_fault_is_for(kind: FaultKind, scope: str, machine: str, hit: set[str]) -> None:
    """One machine, a scope or all: those suffer it, each time, and nobody else does."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        _put(endpoint, kind, scope, machine, delay_seconds=0)
        for _ in range(2):
            for name in ("db_0", "db_1", "web_0"):
                assert _suffers(endpoint, name, kind) == (name in hit)


@REACH
@pytest.mark.parametrize("kind", FaultKind)
def test_connections_that_polled_before(
    kind: FaultKind, scope: str, machine: str, hit: set[str]
) -> None:
    """A connection whose polls are known by heart meets the fault with its next request."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        for name in ("db_0", "db_1", "web_0"):
            connection = endpoint.client(name)
            for _ in range(3):
                assert poll(connection).body == EMPTY
            _put(endpoint, kind, scope, machine, delay_seconds=0)
            before = endpoint.call(endpoint.server.counts.faults.total)
            try:
                poll(connection)
            except (ConnectionError, HTTPException):
                assert kind in {FaultKind.RESET, FaultKind.TRUNCATED}
            assert endpoint.call(endpoint.server.counts.faults.total) - before == (name in hit)
            endpoint.call(endpoint.server.faults.clear)
            connection.close()
            assert endpoint.get(name).body == EMPTY


def test_a_delay_meets_every_request() -> None:
    """Also the second and third on a connection that the first has not closed."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        connection = endpoint.client("db_0")
        poll(connection)
        _put(endpoint, FaultKind.DELAY, "db", "db_0", delay_seconds=0)
        for times in (1, 2, 3):
            assert poll(connection).body == EMPTY
            assert endpoint.call(lambda: endpoint.server.counts.faults[FaultKind.DELAY]) == times


def test_a_held_request_does_not_hide_a_fault() -> None:
    """Who was held from before it is answered; the next request meets it all the same."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        connection = endpoint.client("db_0")
        poll(connection)
        held = endpoint.begin("db_0", more="&wait=300", **{"If-None-Match": '"1"'})
        endpoint.wait_until(lambda: endpoint.server.counts.held == 1)
        _put(endpoint, FaultKind.ERROR, "db")
        endpoint.restart("db_1")
        assert held.getresponse().status == 200
        assert poll(connection).status == 500


def test_a_delayed_answer_is_late_and_right() -> None:
    """It comes after the delay and is what it would have been; others do not wait for it."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        _put(endpoint, FaultKind.DELAY, delay_seconds=0.1, count=1)
        began = monotonic()
        connection = endpoint.begin("db_0")
        endpoint.wait_until(lambda: endpoint.server.counts.faults[FaultKind.DELAY] == 1)
        assert endpoint.get("db_0").body == EMPTY
        assert receive(connection).body == EMPTY
        assert monotonic() - began >= 0.1


def test_for_a_count() -> None:
    """So many requests, of whatever connection or machine; then all is well."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        _put(endpoint, FaultKind.ERROR, count=3)
        statuses = [
            endpoint.get(name).status for name in ("db_0", "web_0", "db_1", "db_0", "web_0")
        ]
        assert statuses == [500, 500, 500, 200, 200]
        assert not endpoint.call(lambda: bool(endpoint.server.faults))


def test_for_a_time() -> None:
    """So many seconds of the fleet's time, however many requests."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        _put(endpoint, FaultKind.GONE, "db", seconds=70)
        for _ in range(2):
            assert endpoint.get("db_0").status == 410
            endpoint.advance(34.5)
        assert endpoint.get("db_1").status == 410
        endpoint.advance(1)
        assert (endpoint.get("db_0").status, endpoint.get("db_1").status) == (200, 200)


def test_for_a_count_within_a_time() -> None:
    """Whichever is over first ends it."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        _put(endpoint, FaultKind.GONE, seconds=60, count=2)
        assert [endpoint.get("db_0").status for _ in range(3)] == [410, 410, 200]
        _put(endpoint, FaultKind.GONE, seconds=60, count=2)
        assert endpoint.get("db_0").status == 410
        endpoint.advance(60)
        assert endpoint.get("db_0").status == 200


def test_the_narrowest_is_taken() -> None:
    """A machine's own fault comes before its scope's, and that before everybody's."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        _put(endpoint, FaultKind.ERROR)
        _put(endpoint, FaultKind.GONE, "db")
        _put(endpoint, FaultKind.NOT_FOUND, "db", "db_0", count=1)
        statuses = {name: endpoint.get(name).status for name in ("db_0", "db_1", "web_0")}
        assert statuses == {"db_0": 404, "db_1": 410, "web_0": 500}
        assert endpoint.get("db_0").status == 410


def test_a_new_one_takes_the_place_of_the_old() -> None:
    """Of the same machines: there is one fault at a time for each."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        _put(endpoint, FaultKind.ERROR, "db")
        _put(endpoint, FaultKind.GONE, "db", count=1)
        assert [endpoint.get("db_0").status for _ in range(2)] == [410, 200]


def test_cleared() -> None:
    """From then on every answer is as if there had been nothing."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        _put(endpoint, FaultKind.ERROR)
        _put(endpoint, FaultKind.RESET, "db", "db_0")
        endpoint.call(endpoint.server.faults.clear)
        assert {endpoint.get(name).status for name in ("db_0", "db_1", "web_0")} == {200}


def test_off_unless_asked_for() -> None:
    """Nothing in a request, and nothing by default, makes a fault."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        assert not endpoint.call(lambda: bool(endpoint.server.faults))
        answer = endpoint.get("db_0", more="&fault=500&delay=1", **{"X-Fault": "reset"})
        assert answer.body == EMPTY
        assert endpoint.call(endpoint.server.counts.faults.total) == 0


def test_approvals_and_instance_metadata_suffer_too() -> None:
    """A fault is of the endpoint; an approval that meets one has not been made."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        event = endpoint.restart("db_0")
        _put(endpoint, FaultKind.ERROR, "db", count=2)
        assert endpoint.approve("db_0", event.id).status == 500
        target = "/metadata/instance?api-version=2021-02-01"
        assert endpoint.send_from("db_0", "GET", target, {"Metadata": "true"}).status == 500
        assert endpoint.get("db_0").json["Events"][0]["EventStatus"] == "Scheduled"
        assert endpoint.approve("db_0", event.id).status == 200


def test_a_delayed_approval_is_made_once() -> None:
    """It arrives late, and is as good as any."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        event = endpoint.restart("db_0")
        _put(endpoint, FaultKind.DELAY, "db", delay_seconds=0)
        assert endpoint.approve("db_1", event.id).status == 200
        assert endpoint.get("db_0").json["DocumentIncarnation"] == 3


@pytest.mark.parametrize("kind", STATUSES)
def test_what_a_refusal_on_demand_looks_like(kind: FaultKind) -> None:
    """Status, an error text that says it was asked for, and a connection that closes."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        _put(endpoint, kind, count=1)
        connection = endpoint.client("db_0")
        answer = send(connection, "GET", POLL, {"Metadata": "true"})
        connection.close()
        assert answer.status == STATUSES[kind]
        assert "asked for" in answer.error
        assert answer.headers["connection"] == "close"
        assert ("retry-after" in answer.headers) == (kind is FaultKind.TOO_MANY)


def test_control_characters_break_a_strict_reader() -> None:
    """The body is not JSON."""
    with EndpointHarness() as endpoint:
        _fleet(endpoint)
        _put(endpoint, FaultKind.CONTROL, count=1)
        text = endpoint.get("db_0").body.decode()
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)


@pytest.mark.parametrize(
    "fault",
    [
        FaultRule(kind=FaultKind.ERROR, machine="db_0"),
        FaultRule(kind=FaultKind.ERROR, count=-1),
        FaultRule(kind=FaultKind.ERROR, seconds=-1),
        FaultRule(kind=FaultKind.DELAY, delay_seconds=-1),
        FaultRule(kind=FaultKind.DELAY, delay_seconds=121),
    ],
)
def test_what_cannot_be_asked_for(fault: FaultRule) -> None:
    """A machine without its scope, or a time or count below nothing, is refused."""
    with EndpointHarness() as endpoint:
        with pytest.raises(Refused):
            endpoint.call(lambda: endpoint.server.faults.put(fault))
        assert not endpoint.call(lambda: bool(endpoint.server.faults))
