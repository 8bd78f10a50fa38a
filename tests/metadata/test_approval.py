"""Approvals that are in order (M12, M16)."""

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


def _announced(it: EndpointHarness, *machines: str, scope: str = "db", size: int = 3) -> list[str]:
    """A scope that is on, each of these machines about to be restarted: the events' ids."""
    it.make(scope, size)
    it.get(f"{scope}_0")
    return [it.restart(machine).id for machine in machines]


def _statuses(it: EndpointHarness, scope: str = "db") -> list[EventStatus]:
    return [event.status for event in it.scope(scope).events.values()]


def _post(it: EndpointHarness, body: bytes | str, **headers: str) -> Response:
    return it.send_from("db_0", "POST", POST, {"Metadata": "true", **headers}, body)


def _accepted(answer: Response) -> bool:
    return (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "0")


@pytest.mark.spec("M12")
@pytest.mark.parametrize("version", VERSIONS)
def test_an_approval_starts_the_event(version: str) -> None:
    """200 with an empty body, on every version, and from then on the event is Started."""
    with EndpointHarness() as it:
        (event,) = _announced(it, "db_0")
        assert _accepted(it.approve("db_0", event, version=version))
        (shown,) = it.get("db_0", version).json["Events"]
        assert (shown["EventId"], shown["EventStatus"], shown["NotBefore"]) == (event, STARTED, "")


@pytest.mark.spec("M12")
def test_for_all_its_resources() -> None:
    """One approval is enough for an event, however many machines it names."""
    with EndpointHarness() as it:
        it.make("db", 3)
        it.get("db_0")
        event = it.freeze("db_0", "db_1", "db_2")
        assert _accepted(it.approve("db_1", event.id))
        (shown,) = it.get("db_2").json["Events"]
        assert (shown["EventStatus"], len(shown["Resources"])) == (STARTED, 3)


@pytest.mark.spec("M12")
def test_several_at_once() -> None:
    """A body may name several events; those it does not name stay as they are."""
    with EndpointHarness() as it:
        events = _announced(it, "db_0", "db_1", "db_2")
        assert _accepted(it.approve("db_0", *events[:2]))
        assert _statuses(it) == [STARTED, STARTED, SCHEDULED]


@pytest.mark.spec("M12")
def test_again_and_again() -> None:
    """200 for an event that is started already, whoever approved it; nothing moves by that."""
    with EndpointHarness() as it:
        (event,) = _announced(it, "db_0")
        for machine in ("db_0", "db_0", "db_1", "db_2"):
            assert _accepted(it.approve(machine, event))
        assert it.get("db_0").json["DocumentIncarnation"] == 3


@pytest.mark.spec("M12")
def test_an_event_that_started_by_itself() -> None:
    """Too late is not wrong: 200 for one whose time had come."""
    with EndpointHarness() as it:
        (event,) = _announced(it, "db_0")
        it.advance(15 * 60)
        assert _statuses(it) == [STARTED]
        assert _accepted(it.approve("db_1", event))


@pytest.mark.spec("M12")
@pytest.mark.parametrize("incarnation", ["5", "", 5, 2, -1, 0, None, "abc", [1], {"a": 1}, 1e99])
def test_the_incarnation_in_the_body_is_ignored(incarnation: object) -> None:
    """String or integer, old or new: the samples of 2017 send one, and it means nothing."""
    with EndpointHarness() as it:
        (event,) = _announced(it, "db_0")
        assert _accepted(_post(it, approval(event, DocumentIncarnation=incarnation)))
        assert _statuses(it) == [STARTED]


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
def test_any_content_type(kind: str) -> None:
    """A form type, as of curl, or anything else: the body is JSON all the same."""
    with EndpointHarness() as it:
        (event,) = _announced(it, "db_0")
        assert _accepted(_post(it, approval(event), **{"Content-Type": kind}))
        assert _statuses(it) == [STARTED]


@pytest.mark.spec("M12")
def test_no_content_type() -> None:
    """Nor is one needed, or any blank or order or name that we do not know avoided."""
    with EndpointHarness() as it:
        (event,) = _announced(it, "db_0")
        body = f' {{ "x": [1], "StartRequests" : [ {{"y": null, "EventId":\n"{event}"}} ] }}\n'
        assert _accepted(_post(it, body))
        assert _statuses(it) == [STARTED]


@pytest.mark.spec("M12")
def test_a_body_in_chunks() -> None:
    """A client that does not know the length beforehand sends chunks."""
    with EndpointHarness() as it:
        (event,) = _announced(it, "db_0")
        body = approval(event).encode()
        parts = [b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:9], body[9:])]
        head = raw_request(POST, "Transfer-Encoding: chunked", method="POST")
        answer = it.raw("db_0", head, *parts, b"0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert _statuses(it) == [STARTED]


@pytest.mark.spec("M12", "M20")
@pytest.mark.parametrize("known", [False, True])
def test_expect_is_answered(known: bool) -> None:
    """A client that waits for 100 Continue, as .NET does, gets it before it sends the body."""
    with EndpointHarness() as it:
        (event,) = _announced(it, "db_1")
        if known:
            it.get("db_0")
        body = approval(event).encode()
        head = raw_request(
            POST, f"Content-Length: {len(body)}", "Expect: 100-continue", method="POST"
        )
        with it.open("db_0") as client:
            client.sendall(head)
            assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            assert _statuses(it) == [SCHEDULED]
            client.sendall(body)
            assert client.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
        assert _statuses(it) == [STARTED]


@pytest.mark.spec("M12", "M20")
def test_expect_of_what_is_refused() -> None:
    """Whoever would be refused anyway is told so instead, and need not send the body."""
    with EndpointHarness() as it:
        _announced(it, "db_0")
        head = raw_request(EVENTS, "Content-Length: 9", "Expect: 100-continue", method="POST")
        with it.open("db_0") as client:
            client.sendall(head)
            assert read_all(client).startswith(b"HTTP/1.1 400 ")


@pytest.mark.spec("M12")
@pytest.mark.parametrize("read", VERSIONS)
def test_another_version_than_the_document_was_read_with(read: str) -> None:
    """Pacemaker reads one version and posts another: an event is the same in all."""
    with EndpointHarness() as it:
        _announced(it, "db_0")
        (shown,) = it.get("db_0", read).json["Events"]
        for version in VERSIONS:
            assert _accepted(it.approve("db_0", shown["EventId"], version=version))
        assert _statuses(it) == [STARTED]


@pytest.mark.spec("M12", "M16")
def test_the_approver_need_not_be_named() -> None:
    """Any machine of the scope may approve; which one did is on record."""
    with EndpointHarness() as it:
        (event,) = _announced(it, "db_0")
        assert _accepted(it.approve("db_2", event))
        (kept,) = it.scope("db").events.values()
        assert (kept.status, kept.approved_by) == (STARTED, "db_2")


@pytest.mark.spec("M12", "M16")
def test_the_approver_need_not_have_polled() -> None:
    """A machine whose first request is an approval is taken at its word."""
    with EndpointHarness() as it:
        (event,) = _announced(it, "db_0")
        assert set(it.call(lambda: {c.name for c in it.server.callers.known.values()})) == {"db_0"}
        assert _accepted(it.approve("db_1", event))


@pytest.mark.spec("M13", "M12")
def test_ids_compare_without_case() -> None:
    """Lower case, as the documentation shows ids, or mixed: it is the same event."""
    with EndpointHarness() as it:
        events = _announced(it, "db_0", "db_1")
        assert _accepted(it.approve("db_0", events[0].lower()))
        assert _accepted(it.approve("db_0", events[1].title()))
        assert _statuses(it) == [STARTED, STARTED]


@pytest.mark.spec("M12", "M13")
def test_one_event_named_many_times() -> None:
    """Whoever names an event twice, in whatever case, means it once."""
    with EndpointHarness() as it:
        (event,) = _announced(it, "db_0")
        assert _accepted(it.approve("db_0", *[event, event.lower()] * 50))
        assert it.get("db_0").json["DocumentIncarnation"] == 3


@pytest.mark.spec("M16")
def test_a_machine_sees_its_scope_and_no_other() -> None:
    """All machines of a scope read all its events, and none of another's."""
    with EndpointHarness() as it:
        db = _announced(it, "db_0", "db_2")
        web = _announced(it, "web_1", scope="web")
        for scope, events in (("db", db), ("web", web)):
            for n in range(3):
                shown = it.get(f"{scope}_{n}").json["Events"]
                assert [event["EventId"] for event in shown] == events


@pytest.mark.spec("M12")
def test_what_is_approved_is_durable() -> None:
    """By the time of the 200, the fleet knows of it: the event differs in nothing else."""
    with EndpointHarness() as it:
        _announced(it, "db_0")
        (before,) = it.scope("db").events.values()
        assert _accepted(it.approve("db_1", before.id))
        (after,) = it.scope("db").events.values()
        assert after == changed(before, status=STARTED, approved_by="db_1")
