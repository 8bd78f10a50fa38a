"""Injected faults: for one machine, a scope or all; for a count or a time (M21)."""

import json
from http.client import HTTPConnection, HTTPException, IncompleteRead
from time import monotonic
from typing import Any

import pytest

from fairwarning.core.errors import Refused
from fairwarning.service.faults import FaultKind, FaultRule
from tests.fixtures.endpoint import EndpointHarness, poll
from tests.fixtures.http import Response, receive
from tests.metadata.conftest import EMPTY, INSTANCE, METADATA

pytestmark = pytest.mark.spec("M21")

STATUSES = {
    FaultKind.NOT_FOUND: 404,
    FaultKind.GONE: 410,
    FaultKind.TOO_MANY: 429,
    FaultKind.ERROR: 500,
}
MACHINES = ("db_0", "db_1", "web_0")


def _fleet(endpoint: EndpointHarness) -> None:
    """Create two enabled scopes; each machine has polled on its own connection."""
    endpoint.make("db", 2)
    endpoint.make("web")
    for machine in MACHINES:
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


def _hits_fault(endpoint: EndpointHarness, connection: HTTPConnection, kind: FaultKind) -> bool:
    """Whether a poll hits this fault; otherwise its response must be correct."""
    before = endpoint.call(lambda: endpoint.server.counts.faults[kind])
    try:
        response = poll(connection)
    except (ConnectionError, HTTPException) as error:
        return _is_expected_error(kind, error)
    faulty = endpoint.call(lambda: endpoint.server.counts.faults[kind]) > before
    assert faulty == _is_faulty(kind, response) or kind is FaultKind.DELAY
    return faulty


def _is_expected_error(kind: FaultKind, error: Exception) -> bool:
    if kind is FaultKind.RESET:
        return isinstance(error, ConnectionResetError)
    assert isinstance(error, IncompleteRead)
    return kind is FaultKind.TRUNCATED and EMPTY.startswith(error.partial)


def _is_faulty(kind: FaultKind, response: Response) -> bool:
    if kind in STATUSES and response.status == STATUSES[kind]:
        assert response.headers["connection"] == "close"
        assert ("retry-after" in response.headers) == (kind is FaultKind.TOO_MANY)
        return "injected fault" in response.error
    assert response.status == 200
    if kind is FaultKind.EMPTY and response.body == b"":
        return True
    if kind is FaultKind.CONTROL and response.body != EMPTY:
        with pytest.raises(json.JSONDecodeError):
            json.loads(response.body.decode())
        return EMPTY in response.body and any(byte < 32 for byte in response.body)
    assert response.body == EMPTY
    return False


@pytest.mark.parametrize(
    ("scope", "machine", "hit"),
    [("db", "db_0", {"db_0"}), ("db", "", {"db_0", "db_1"}), ("", "", set(MACHINES))],
)
@pytest.mark.parametrize("kind", FaultKind)
def test_reach_of_a_fault(
    endpoint: EndpointHarness, kind: FaultKind, scope: str, machine: str, hit: set[str]
) -> None:
    """A fault hits a machine, a scope or all, with every request, also with cached polls."""
    _fleet(endpoint)
    for name in MACHINES:
        connection = endpoint.client(name)
        for _ in range(3):
            assert poll(connection).body == EMPTY
        _put(endpoint, kind, scope, machine, delay_seconds=0)
        for polling in (connection, endpoint.client(name), endpoint.client(name)):
            assert _hits_fault(endpoint, polling, kind) == (name in hit)
        endpoint.call(endpoint.server.faults.clear)
        assert endpoint.get(name).body == EMPTY


def test_a_held_request_does_not_hide_a_fault(endpoint: EndpointHarness) -> None:
    """A request held before the fault is answered; the next request hits the fault."""
    _fleet(endpoint)
    connection = endpoint.client("db_0")
    poll(connection)
    held = endpoint.begin("db_0", more="&wait=300", **{"If-None-Match": '"1"'})
    endpoint.wait_until(lambda: endpoint.server.counts.held == 1)
    _put(endpoint, FaultKind.ERROR, "db")
    endpoint.restart("db_1")
    assert held.getresponse().status == 200
    assert poll(connection).status == 500


def test_a_delayed_response_is_late_and_correct(endpoint: EndpointHarness) -> None:
    """The response arrives unchanged after the delay; other requests do not wait for it."""
    _fleet(endpoint)
    _put(endpoint, FaultKind.DELAY, delay_seconds=0.1, count=1)
    began = monotonic()
    connection = endpoint.begin("db_0")
    endpoint.wait_until(lambda: endpoint.server.counts.faults[FaultKind.DELAY] == 1)
    assert endpoint.get("db_0").body == EMPTY
    assert receive(connection).body == EMPTY
    assert monotonic() - began >= 0.1


def test_fault_for_a_time(endpoint: EndpointHarness) -> None:
    """The fault lasts this many seconds of fleet time, however many requests arrive."""
    _fleet(endpoint)
    _put(endpoint, FaultKind.GONE, "db", seconds=70)
    for _ in range(2):
        assert endpoint.get("db_0").status == 410
        endpoint.advance(34.5)
    assert endpoint.get("db_1").status == 410
    endpoint.advance(1)
    assert (endpoint.get("db_0").status, endpoint.get("db_1").status) == (200, 200)
    for statuses in ([410, 410, 200], [410]):  # the limit that is reached first ends it
        _put(endpoint, FaultKind.GONE, seconds=60, count=2)
        assert [endpoint.get("db_0").status for _ in statuses] == statuses
    endpoint.advance(60)
    assert endpoint.get("db_0").status == 200


def test_the_most_specific_fault_wins(endpoint: EndpointHarness) -> None:
    """A machine's own fault takes precedence over its scope's, and that over a global one."""
    _fleet(endpoint)
    _put(endpoint, FaultKind.ERROR)
    _put(endpoint, FaultKind.GONE, "db")
    _put(endpoint, FaultKind.NOT_FOUND, "db", "db_0", count=1)
    statuses = {name: endpoint.get(name).status for name in ("db_0", "db_1", "web_0")}
    assert statuses == {"db_0": 404, "db_1": 410, "web_0": 500}
    assert endpoint.get("db_0").status == 410


def test_faults_hit_approvals_and_instance_metadata(endpoint: EndpointHarness) -> None:
    """A fault applies to the whole endpoint; an approval that hits one has no effect."""
    _fleet(endpoint)
    event = endpoint.restart("db_0")
    _put(endpoint, FaultKind.ERROR, "db", count=2)
    assert endpoint.approve("db_0", event.id).status == 500
    assert endpoint.send_from("db_0", "GET", INSTANCE, METADATA).status == 500
    assert endpoint.get("db_0").json["Events"][0]["EventStatus"] == "Scheduled"
    assert endpoint.approve("db_0", event.id).status == 200


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
def test_invalid_fault_rules(endpoint: EndpointHarness, fault: FaultRule) -> None:
    """A machine without its scope, and a negative time or count, are refused."""
    with pytest.raises(Refused):
        endpoint.call(lambda: endpoint.server.faults.put(fault))
    assert not endpoint.call(lambda: bool(endpoint.server.faults))
