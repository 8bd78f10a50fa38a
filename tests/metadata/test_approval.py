"""Approvals: what is valid (M12, M16), and what approves nothing, with the reason (M13)."""

from pathlib import Path

import pytest

from fairwarning.core import limits
from fairwarning.core.model import EventStatus
from fairwarning.core.record import changed
from tests.fixtures.endpoint import POLL_TARGET, EndpointHarness, approval, raw_request
from tests.fixtures.http import Response
from tests.fixtures.service import ServiceProcess
from tests.metadata.conftest import METADATA, VERSIONS

STARTED, SCHEDULED = EventStatus.STARTED, EventStatus.SCHEDULED
STRANGE = "00000000-1111-2222-3333-444444444444"


def _announced(endpoint: EndpointHarness, *machines: str) -> list[str]:
    """Create an enabled scope and restart these machines; return the ids of the events."""
    endpoint.make("db", 3)
    endpoint.get("db_0")
    return [endpoint.restart(machine).id for machine in machines]


def _statuses(endpoint: EndpointHarness) -> list[EventStatus]:
    return [event.status for event in endpoint.scope("db").events.values()]


def _post(endpoint: EndpointHarness, body: bytes | str, **headers: str) -> Response:
    return endpoint.send_from("db_0", "POST", POLL_TARGET, {**METADATA, **headers}, body)


def _accepted(response: Response) -> bool:
    return (response.status, response.body, response.headers["content-length"]) == (200, b"", "0")


def _refused(endpoint: EndpointHarness, body: bytes | str) -> str:
    """Return the error text; check that nothing is approved and the document is unchanged."""
    before = endpoint.get("db_0").body
    response = _post(endpoint, body)
    assert response.status == 400
    assert endpoint.get("db_0").body == before
    events = endpoint.scope("db").events.values()
    assert {(event.status, event.approved_by) for event in events} == {(SCHEDULED, "")}
    return response.error


# --- Valid ----------------------------------------------------------------------------------------


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
        None,
        "",
        "application/json",
        "application/json; charset=utf-8",
        "application/x-www-form-urlencoded",
        "text/plain",
        "multipart/form-data; boundary=x",
        "nonsense",
    ],
)
def test_any_content_type(endpoint: EndpointHarness, kind: str | None) -> None:
    """The body is JSON whatever its type; whitespace, order and unknown members do not matter."""
    (event,) = _announced(endpoint, "db_0")
    body = f' {{ "x": [1], "StartRequests" : [ {{"y": null, "EventId":\n"{event}"}} ] }}\n'
    headers = {} if kind is None else {"Content-Type": kind}
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
    size = f"Content-Length: {len(body)}"
    head = raw_request(POLL_TARGET, size, "Expect: 100-continue", method="POST")
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

    Any machine of the scope may approve for all, also with its first request.
    """
    _announced(endpoint)
    known = endpoint.call(lambda: {c.name for c in endpoint.server.callers.known.values()})
    assert known == {"db_0"}
    before = endpoint.freeze("db_0", "db_2")
    assert _accepted(endpoint.approve("db_1", before.id))
    (after,) = endpoint.scope("db").events.values()
    assert after == changed(before, status=STARTED, approved_by="db_1")


# --- Invalid --------------------------------------------------------------------------------------


@pytest.mark.spec("M12", "M13")
def test_an_event_that_is_over(endpoint: EndpointHarness) -> None:
    """A client that repeats its approval gets 200 for ten minutes, and nothing changes."""
    gone, _ = _announced(endpoint, "db_0", "db_1")
    endpoint.approve("db_0", gone)
    endpoint.advance(60)
    before = endpoint.get("db_0").body
    assert gone.encode() not in before
    endpoint.advance(599)
    assert _accepted(_post(endpoint, approval(gone)))
    assert endpoint.get("db_0").body == before
    endpoint.advance(1)
    assert gone in _refused(endpoint, approval(gone))


@pytest.mark.spec("M13")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_all_or_none(endpoint: EndpointHarness, place: int) -> None:
    """One invalid id among valid ones, in any position: none of them is approved."""
    names = _announced(endpoint, "db_0", "db_1")
    assert _refused(endpoint, approval(*names) + "{}")  # a body is a single JSON value
    names.insert(place, STRANGE)
    assert STRANGE in _refused(endpoint, approval(*names))
    names[place] = "not an id"
    assert "not an id" in _refused(endpoint, approval(*names))


WRONG_REQUESTS = (
    "{}", "[]", "null", '"x"', "7", '{"Events":[]}', '{"DocumentIncarnation":5}',
    '{"StartRequests":null}', '{"StartRequests":[]}', '{"StartRequests":{}}',
    '{"StartRequests":"x"}', '{"StartRequests":[null]}', '{"StartRequests":["x"]}',
    '{"StartRequests":[[]]}', '{"startRequests":[{"EventId":"x"}]}',
)  # fmt: skip
WRONG_IDS = ("{}", *(f'{{"EventId":{name}}}' for name in ("null", "7", '["x"]', '""')))


@pytest.mark.spec("M13")
def test_a_wrong_body(endpoint: EndpointHarness) -> None:
    """The text says which member is wrong."""
    _announced(endpoint, "db_0")
    for body in WRONG_REQUESTS:
        assert "StartRequests" in _refused(endpoint, body), body
    for start in (*WRONG_IDS, '{"eventid":"x"}'):
        assert "EventId" in _refused(endpoint, f'{{"StartRequests":[{start}]}}'), start


@pytest.mark.spec("M13")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"StartRequests",
        b"StartRequests=1&EventId=2",
        b'{"StartRequests":[{"EventId":"x"}]',
        b"{'StartRequests':[]}",
        b'{"StartRequests":[{"EventId":"\xff\xfe"}]}',
        b"\x00",
        b"[" * 60_000,
        b'{"x":' * 10_000 + b"1" + b"}" * 10_000,
    ],
    ids=lambda body: repr(body[:20]),
)
def test_a_body_that_is_not_json(endpoint: EndpointHarness, body: bytes) -> None:
    """Cut off, not UTF-8, or nested too deeply."""
    _announced(endpoint, "db_0")
    assert "StartRequests" in _refused(endpoint, body)


@pytest.mark.spec("M13")
@pytest.mark.parametrize("spelling", ["{{{}}}", " {}", "{} ", "{}\n", "x{}", "{}0"])
def test_malformed_id(endpoint: EndpointHarness, spelling: str) -> None:
    """An id is a GUID as in the document, with nothing before or after it; the text is short."""
    (event,) = _announced(endpoint, "db_0")
    assert "EventId" in _refused(endpoint, approval(spelling.format(event)))
    assert len(_refused(endpoint, approval(spelling.format(event) * 1_500))) < 300


@pytest.mark.spec("M13")
def test_too_many_ids(endpoint: EndpointHarness) -> None:
    """A body may name as many ids as a document has events at most, even if they are the same."""
    (event,) = _announced(endpoint, "db_0")
    most = limits.SCOPE_EVENTS
    assert f"1 to {most}" in _refused(endpoint, approval(*[event] * (most + 1)))
    assert _accepted(_post(endpoint, approval(*[event] * most)))


@pytest.mark.spec("M13")
def test_a_disabled_scope(endpoint: EndpointHarness) -> None:
    """A disabled scope has no events to approve, and an approval does not enable it."""
    endpoint.make("db")
    assert _post(endpoint, approval(STRANGE)).status == 400
    assert not endpoint.scope("db").enabled


LONGEST = "n" * limits.NAME_CHARACTERS
MACHINE = f'[[machine]]\nname = "{LONGEST}"\n'
SET = f'[[scale_set]]\nname = "{LONGEST}"\ncapacity = 2\nterminate_notice = "PT5M"\n'
CLOUD_SERVICE = f'[[cloud_service]]\nname = "{LONGEST}"\nroles = {{ "{LONGEST[:-5]}" = 1 }}\n'


@pytest.mark.spec("M12", "T7")
@pytest.mark.parametrize(
    ("fleet", "machine"),
    [(MACHINE, LONGEST), (SET, f"{LONGEST}_1"), (CLOUD_SERVICE, f"{LONGEST[:-5]}_IN_0")],
    ids=["machine", "instance", "role"],
)
def test_the_longest_name_can_approve(tmp_path: Path, fleet: str, machine: str) -> None:
    """It polls, approves, and its operation succeeds."""
    words = ("--clock", "virtual", "--memory")
    with ServiceProcess(tmp_path / "data", *words, fleet=fleet) as service:
        service.poll(machine)
        accepted = service.ok("POST", f"/api/machines/{machine}/restart")
        (event,) = service.poll(machine)["Events"]
        assert event["Resources"] == [machine]
        service.approve(machine, event["EventId"])
        (started,) = service.poll(machine)["Events"]
        assert started["EventStatus"] == "Started"
        service.advance(3600)
        operation = service.ok("GET", f"/api/operations/{accepted['operation']['id']}")
        assert operation["status"] == "Succeeded"
        explained = service.run("event", "explain", event["EventId"]).stdout
        assert machine in explained.replace("\n", "").replace(" ", "")
