"""Valid approvals (M12, M16)."""

import pytest

from fairwarning.core.model import EventStatus
from fairwarning.core.record import changed
from tests.fixtures.endpoint import EVENTS, EndpointHarness, approval, raw_request
from tests.fixtures.http import Response

POST = f"{EVENTS}?api-version=2020-07-01"
VERSIONS = (
    "2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01",
    "2020-07-01",
)  # fmt: skip
STARTED, SCHEDULED = EventStatus.STARTED, EventStatus.SCHEDULED


def _announced(
    endpoint: EndpointHarness, *machines: str, scope: str = "db", size: int = 3
) -> list[str]:
    """Create an enabled scope and restart these machines; return the ids of the events."""
    endpoint.make(scope, size)
    endpoint.get(f"{scope}_0")
    return [endpoint.restart(machine).id for machine in machines]


def _statuses(endpoint: EndpointHarness, scope: str = "db") -> list[EventStatus]:
    return [event.status for event in endpoint.scope(scope).events.values()]


def _post(endpoint: EndpointHarness, body: bytes | str, **headers: str) -> Response:
    return endpoint.send_from("db_0", "POST", POST, {"Metadata": "true", **headers}, body)


def _accepted(response: Response) -> bool:
    return (response.status, response.body, response.headers["content-length"]) == (200, b"", "0")


@pytest.mark.spec("M12")
@pytest.mark.parametrize("version", VERSIONS)
def test_an_approval_starts_the_event(endpoint: EndpointHarness, version: str) -> None:
    """Every version responds 200 with an empty body; from then on the event is Started.

    Pacemaker reads one version and posts another; an event is the same in all versions.
    """
    (event,) = _announced(endpoint, "db_0")
    assert _accepted(endpoint.approve("db_0", event, version=version))
    (shown,) = endpoint.get("db_0", version).json["Events"]
    assert (shown["EventId"], shown["EventStatus"], shown["NotBefore"]) == (event, STARTED, "")
    for other in VERSIONS:
        assert _accepted(endpoint.approve("db_0", shown["EventId"], version=other))


@pytest.mark.spec("M12")
def test_one_approval_for_all_resources(endpoint: EndpointHarness) -> None:
    """One approval is enough for an event, however many machines it names."""
    endpoint.make("db", 3)
    endpoint.get("db_0")
    event = endpoint.freeze("db_0", "db_1", "db_2")
    assert _accepted(endpoint.approve("db_1", event.id))
    (shown,) = endpoint.get("db_2").json["Events"]
    assert (shown["EventStatus"], len(shown["Resources"])) == (STARTED, 3)


@pytest.mark.spec("M12")
@pytest.mark.parametrize("incarnation", ["5", "", 5, 2, -1, 0, None, "abc", [1], {"a": 1}, 1e99])
def test_the_incarnation_in_the_body_is_ignored(
    endpoint: EndpointHarness, incarnation: object
) -> None:
    """String or integer, old or new: the samples of 2017 send one, and it has no meaning."""
    (event,) = _announced(endpoint, "db_0")
    assert _accepted(_post(endpoint, approval(event, DocumentIncarnation=incarnation)))
    assert _statuses(endpoint) == [STARTED]


@pytest.mark.spec("M12")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": ""},
        {"Content-Type": "application/json"},
        {"Content-Type": "application/json; charset=utf-8"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "nonsense"},
    ],
)
def test_any_content_type(endpoint: EndpointHarness, headers: dict[str, str]) -> None:
    """The body is JSON whatever its type; whitespace, order and unknown members do not matter."""
    (event,) = _announced(endpoint, "db_0")
    body = f' {{ "x": [1], "StartRequests" : [ {{"y": null, "EventId":\n"{event}"}} ] }}\n'
    assert _accepted(_post(endpoint, body, **headers))
    assert _statuses(endpoint) == [STARTED]


@pytest.mark.spec("M12", "M20")
@pytest.mark.parametrize("known", [False, True])
def test_expect_is_answered(endpoint: EndpointHarness, known: bool) -> None:
    """A client that waits for 100 Continue, as .NET does, gets it before it sends the body."""
    (event,) = _announced(endpoint, "db_1")
    if known:
        endpoint.get("db_0")
    body = approval(event).encode()
    head = raw_request(POST, f"Content-Length: {len(body)}", "Expect: 100-continue", method="POST")
    with endpoint.open("db_0") as client:
        client.sendall(head)
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert _statuses(endpoint) == [SCHEDULED]
        client.sendall(body)
        assert client.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
        client.sendall(head + body)  # a client that does not wait gets no 100
        assert client.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
    assert _statuses(endpoint) == [STARTED]


@pytest.mark.spec("M13", "M12")
def test_several_events_at_once(endpoint: EndpointHarness) -> None:
    """In lower case, as in the documentation, or mixed, each once or more; others stay as is."""
    events = _announced(endpoint, "db_0", "db_1", "db_2")
    named = [events[0], events[0].lower(), events[1].title()]
    assert _accepted(endpoint.approve("db_0", *named * 30))
    assert _statuses(endpoint) == [STARTED, STARTED, SCHEDULED]
    assert endpoint.get("db_0").json["DocumentIncarnation"] == 5


@pytest.mark.spec("M12", "M16")
def test_an_approval_is_durable(endpoint: EndpointHarness) -> None:
    """When the 200 arrives, the fleet has stored the approval and changed nothing else.

    Any machine of the scope may approve, also with its first request.
    """
    _announced(endpoint, "db_0")
    known = endpoint.call(lambda: {c.name for c in endpoint.server.callers.known.values()})
    assert known == {"db_0"}
    (before,) = endpoint.scope("db").events.values()
    assert _accepted(endpoint.approve("db_1", before.id))
    (after,) = endpoint.scope("db").events.values()
    assert after == changed(before, status=STARTED, approved_by="db_1")
