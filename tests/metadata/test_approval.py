"""Valid approvals (M12, M16)."""

import pytest

from fairwarning.core.model import EventStatus
from fairwarning.core.record import changed
from tests.fixtures.endpoint import EVENTS, EndpointHarness, approval, raw_request, read_all
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
    """Every version responses 200 with an empty body; from then on the event is Started."""
    (event,) = _announced(endpoint, "db_0")
    assert _accepted(endpoint.approve("db_0", event, version=version))
    (shown,) = endpoint.get("db_0", version).json["Events"]
    assert (shown["EventId"], shown["EventStatus"], shown["NotBefore"]) == (event, STARTED, "")


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
def test_several_events_at_once(endpoint: EndpointHarness) -> None:
    """A body may name several events; the events it does not name stay as they are."""
    events = _announced(endpoint, "db_0", "db_1", "db_2")
    assert _accepted(endpoint.approve("db_0", *events[:2]))
    assert _statuses(endpoint) == [STARTED, STARTED, SCHEDULED]


@pytest.mark.spec("M12")
def test_approving_again(endpoint: EndpointHarness) -> None:
    """A started event can be approved again by any machine: 200, and nothing changes."""
    (event,) = _announced(endpoint, "db_0")
    for machine in ("db_0", "db_0", "db_1", "db_2"):
        assert _accepted(endpoint.approve(machine, event))
    assert endpoint.get("db_0").json["DocumentIncarnation"] == 3


@pytest.mark.spec("M12")
def test_an_event_that_started_by_itself(endpoint: EndpointHarness) -> None:
    """An approval after NotBefore is not an error: 200."""
    (event,) = _announced(endpoint, "db_0")
    endpoint.advance(15 * 60)
    assert _statuses(endpoint) == [STARTED]
    assert _accepted(endpoint.approve("db_1", event))


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
    "kind",
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/x-www-form-urlencoded",
        "text/plain",
        "multipart/form-data; boundary=x",
        "nonsense",
        "",
    ],
)
def test_any_content_type(endpoint: EndpointHarness, kind: str) -> None:
    """The body is read as JSON whatever its type, such as the form type that curl sends."""
    (event,) = _announced(endpoint, "db_0")
    assert _accepted(_post(endpoint, approval(event), **{"Content-Type": kind}))
    assert _statuses(endpoint) == [STARTED]


@pytest.mark.spec("M12")
def test_no_content_type(endpoint: EndpointHarness) -> None:
    """A content type is not needed; whitespace, order and unknown members do not matter."""
    (event,) = _announced(endpoint, "db_0")
    body = f' {{ "x": [1], "StartRequests" : [ {{"y": null, "EventId":\n"{event}"}} ] }}\n'
    assert _accepted(_post(endpoint, body))
    assert _statuses(endpoint) == [STARTED]


@pytest.mark.spec("M12")
def test_a_chunked_body(endpoint: EndpointHarness) -> None:
    """A client that does not know the length in advance sends chunks."""
    (event,) = _announced(endpoint, "db_0")
    body = approval(event).encode()
    parts = [b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:9], body[9:])]
    head = raw_request(POST, "Transfer-Encoding: chunked", method="POST")
    response = endpoint.raw("db_0", head, *parts, b"0\r\n\r\n")
    assert response.startswith(b"HTTP/1.1 200 ")
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
    assert _statuses(endpoint) == [STARTED]


@pytest.mark.spec("M12", "M20")
def test_expect_of_a_refused_request(endpoint: EndpointHarness) -> None:
    """A request that will be refused gets the refusal at once and need not send its body."""
    _announced(endpoint, "db_0")
    head = raw_request(EVENTS, "Content-Length: 9", "Expect: 100-continue", method="POST")
    with endpoint.open("db_0") as client:
        client.sendall(head)
        assert read_all(client).startswith(b"HTTP/1.1 400 ")


@pytest.mark.spec("M12")
@pytest.mark.parametrize("read", VERSIONS)
def test_another_version_than_the_document_was_read_with(
    endpoint: EndpointHarness, read: str
) -> None:
    """Pacemaker reads one version and posts another; an event is the same in all versions."""
    _announced(endpoint, "db_0")
    (shown,) = endpoint.get("db_0", read).json["Events"]
    for version in VERSIONS:
        assert _accepted(endpoint.approve("db_0", shown["EventId"], version=version))
    assert _statuses(endpoint) == [STARTED]


@pytest.mark.spec("M12", "M16")
def test_the_approver_need_not_be_a_resource(endpoint: EndpointHarness) -> None:
    """Any machine of the scope may approve; the event records which one did."""
    (event,) = _announced(endpoint, "db_0")
    assert _accepted(endpoint.approve("db_2", event))
    (kept,) = endpoint.scope("db").events.values()
    assert (kept.status, kept.approved_by) == (STARTED, "db_2")


@pytest.mark.spec("M12", "M16")
def test_the_approver_need_not_have_polled(endpoint: EndpointHarness) -> None:
    """The first request of a machine may be an approval."""
    (event,) = _announced(endpoint, "db_0")
    assert set(endpoint.call(lambda: {c.name for c in endpoint.server.callers.known.values()})) == {
        "db_0"
    }
    assert _accepted(endpoint.approve("db_1", event))


@pytest.mark.spec("M13", "M12")
def test_ids_compare_without_case(endpoint: EndpointHarness) -> None:
    """Ids may be in lower case, as in the documentation, or in mixed case."""
    events = _announced(endpoint, "db_0", "db_1")
    assert _accepted(endpoint.approve("db_0", events[0].lower()))
    assert _accepted(endpoint.approve("db_0", events[1].title()))
    assert _statuses(endpoint) == [STARTED, STARTED]


@pytest.mark.spec("M12", "M13")
def test_one_event_named_many_times(endpoint: EndpointHarness) -> None:
    """An event that is named several times, in any case, counts once."""
    (event,) = _announced(endpoint, "db_0")
    assert _accepted(endpoint.approve("db_0", *[event, event.lower()] * 50))
    assert endpoint.get("db_0").json["DocumentIncarnation"] == 3


@pytest.mark.spec("M16")
def test_a_machine_sees_its_scope_and_no_other(endpoint: EndpointHarness) -> None:
    """All machines of a scope read all its events, and none of another scope."""
    db = _announced(endpoint, "db_0", "db_2")
    web = _announced(endpoint, "web_1", scope="web")
    for scope, events in (("db", db), ("web", web)):
        for n in range(3):
            shown = endpoint.get(f"{scope}_{n}").json["Events"]
            assert [event["EventId"] for event in shown] == events


@pytest.mark.spec("M12")
def test_an_approval_is_durable(endpoint: EndpointHarness) -> None:
    """When the 200 arrives, the fleet has stored the approval and changed nothing else."""
    _announced(endpoint, "db_0")
    (before,) = endpoint.scope("db").events.values()
    assert _accepted(endpoint.approve("db_1", before.id))
    (after,) = endpoint.scope("db").events.values()
    assert after == changed(before, status=STARTED, approved_by="db_1")
