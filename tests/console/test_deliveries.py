"""Which machine was shown which event, and whose approvals were refused."""

from typing import Any

import pytest

from fairwarning.core.commands import RecordRefusal
from fairwarning.core.decision import FactType
from fairwarning.service.refusals import RefusalLog
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.endpoint import EVENTS, approval, poll

OLD = "2017-03-01"  # shows no Preempt and no Terminate (M9)


def deliveries(console: ConsoleHarness, event: str) -> list[tuple[str, str]]:
    """Return the machines that an event was delivered to, and when."""
    console.write_deliveries()
    explanation = console.ok("GET", f"/api/events/{event}/explain")
    return [(entry["machine"], entry["at"][11:19]) for entry in explanation["deliveries"]]


def delivery_lines(console: ConsoleHarness, event: str) -> list[dict[str, Any]]:
    """Return the journal lines of an event's deliveries."""
    console.write_deliveries()
    lines = console.ok("GET", f"/api/journal?event={event}")["lines"]
    return [line for line in lines if line["type"] == FactType.DELIVERED]


@pytest.mark.spec("O7", "M16")
def test_each_machine_gets_one_delivery(console: ConsoleHarness) -> None:
    """Repeated polls and connections count once; every machine of the scope gets the event."""
    console.make("av", 3)
    console.poll("av_0")
    event = console.freeze("av_1").id
    assert deliveries(console, event) == []
    for _ in range(3):
        console.poll("av_0")
    console.advance(10)
    connection = console.client("av_2")
    for _ in range(3):
        assert poll(connection).status == 200
    assert deliveries(console, event) == [("av_0", "12:00:00"), ("av_2", "12:00:10")]
    console.advance(10)
    console.poll("av_0", "av_1", "av_2")
    assert deliveries(console, event)[2:] == [("av_1", "12:00:20")]
    assert [line["machines"] for line in delivery_lines(console, event)] == [
        ["av_0"],
        ["av_2"],
        ["av_1"],
    ]
    assert {line["actor"] for line in delivery_lines(console, event)} == {"machine"}


@pytest.mark.spec("O7", "M9")
def test_a_newer_client_beside_an_old_one_gets_the_event(console: ConsoleHarness) -> None:
    """A poll with a version that does not show the event is no delivery."""
    console.polling("spot", priority="Spot")
    event = console.act("spot", "evict", key="op")["events"][0]["id"]
    assert console.get("spot", OLD).json["Events"] == []
    assert deliveries(console, event) == []
    console.advance(5)
    assert [entry["EventId"] for entry in console.get("spot").json["Events"]] == [event]
    assert deliveries(console, event) == [("spot", "12:00:05")]


@pytest.mark.spec("O7", "M11")
def test_unmodified_and_failed_polls_are_no_delivery(console: ConsoleHarness) -> None:
    """Neither a 304 nor a response that a fault replaced counts."""
    console.polling("vm")
    event = console.act("vm", "restart", key="op")["events"][0]["id"]
    console.ok("POST", "/api/faults", {"kind": "500", "machine": "vm", "count": 1})
    assert console.get("vm").status == 500
    assert deliveries(console, event) == []
    tag = console.get("vm").headers["etag"]
    assert console.get("vm", **{"If-None-Match": tag}).status == 304
    assert len(delivery_lines(console, event)) == 1


@pytest.mark.spec("O7", "M18")
def test_a_long_poll_delivers_when_it_is_answered(console: ConsoleHarness) -> None:
    """The delivery has the time of the response, not of the request."""
    console.created("machines", name="vm")
    tag = console.get("vm").headers["etag"]
    held = console.begin("vm", more="&wait=30", **{"If-None-Match": tag})
    console.wait_until(lambda: console.server.counts.held == 1)
    console.advance(7)
    event = console.act("vm", "restart", key="op")["events"][0]["id"]
    assert held.getresponse().status == 200
    assert deliveries(console, event) == [("vm", "12:00:07")]


@pytest.mark.spec("O7", "E9")
def test_deliveries_and_a_restart(console: ConsoleHarness) -> None:
    """A clean stop loses none; a repeat afterwards does no harm: the first delivery counts."""
    console.polling("vm")
    event = console.act("vm", "restart", key="op")["events"][0]["id"]
    assert console.get("vm").status == 200
    console.restart_service()
    assert deliveries(console, event) == [("vm", "12:00:00")]
    console.advance(30)
    console.poll("vm")
    assert deliveries(console, event) == [("vm", "12:00:00")]
    console.approve("vm", event)
    console.advance(60)
    assert deliveries(console, event) == [("vm", "12:00:00")]


def test_deliveries_of_ended_events_leave_memory(console: ConsoleHarness) -> None:
    """The delivery log keeps only live events in memory."""
    console.polling("vm")
    for number in range(5):
        event = console.act("vm", "restart", key=f"op{number}")["events"][0]["id"]
        console.poll("vm")
        console.approve("vm", event)
        console.advance(60)
    assert console.fleet.deliveries._delivered == {}
    assert console.fleet.deliveries._unwritten == {}
    console.act("vm", "restart", key="last")
    assert console.get("vm").status == 200
    console.ok("POST", "/api/machines/vm/delete", key="gone")
    console.advance(3600)
    assert console.fleet.deliveries._delivered == {}


@pytest.mark.spec("O7")
def test_a_delivery_does_not_change_the_document(console: ConsoleHarness) -> None:
    """It only writes to the journal: the incarnation stays, and long polls are not woken."""
    console.make("av", 2)
    console.poll("av_0")
    console.freeze("av_0")
    before = console.get("av_0").json
    console.write_deliveries()
    console.poll("av_1")
    assert console.get("av_0").json == before


# --- Refused approvals ---

POST = f"{EVENTS}?api-version=2020-07-01"
HEADER = {"Metadata": "true"}
STRANGE = approval("00000000-1111-2222-3333-444444444444")


def refused(
    console: ConsoleHarness, headers: dict[str, str], body: str = STRANGE, target: str = POST
) -> None:
    """Send an approval of `vm` that is refused."""
    assert 400 <= console.send_from("vm", "POST", target, headers, body).status < 500


def refusals(console: ConsoleHarness) -> list[str]:
    """Return what the explanation of `vm` says about refused approvals."""
    console.settle()
    steps = console.ok("GET", "/api/machines/vm/explain")["steps"]
    lines = console.ok("GET", "/api/journal?newest=true&type=ApprovalRefused")["lines"]
    texts = [step["text"] for step in steps if step["type"] == "ApprovalRefused"]
    assert [line["machines"] for line in lines] == [["vm"]] * len(texts)
    return texts


@pytest.mark.spec("O7", "M13")
@pytest.mark.parametrize(
    ("headers", "body", "target", "reason"),
    [
        ({}, STRANGE, POST, "Required metadata header not specified: add Metadata: true"),
        ({}, "", POST, "Required metadata header not specified: add Metadata: true"),
        (HEADER, STRANGE, POST, "this scope has no event '00000000-1111-2222-3333-444444444444'"),
        (HEADER, "{}", POST, "Object missing required field `StartRequests`"),
        (HEADER, STRANGE, EVENTS, "api-version is invalid or was not specified"),
        (HEADER, "x" * 70_000, POST, "A body may have at most"),
        ({**HEADER, "X-Forwarded-For": "10.0.0.1"}, STRANGE, POST, "x-forwarded-for is not"),
    ],
)
@pytest.mark.parametrize("polled", [True, False])
def test_an_explanation_names_the_reason(
    console: ConsoleHarness, headers: dict[str, str], *, body: str, target: str, reason: str,
    polled: bool,
) -> None:  # fmt: skip
    """Whether the machine has polled before or not; the document stays as it is."""
    console.created("machines", name="vm")
    console.learn_addresses()
    if polled:
        console.poll("vm")
    before = console.scope("vm")
    refused(console, headers, body, target)
    (text,) = refusals(console)
    assert text.startswith(f"approval refused: {reason}")
    assert console.scope("vm") == before


@pytest.mark.spec("O7", "M13")
def test_repetitions_are_journaled_once_an_hour(console: ConsoleHarness) -> None:
    """A client that repeats itself for a day gets a line an hour; another reason gets its own."""
    console.created("machines", name="vm")
    console.learn_addresses()
    for _ in range(20):
        refused(console, HEADER)
    assert len(refusals(console)) == 1
    refused(console, {})
    assert len(refusals(console)) == 2
    for _ in range(24 * 6):
        console.advance(600)
        refused(console, HEADER)
    assert len(refusals(console)) == 2 + 24


@pytest.mark.spec("O7", "M13")
def test_only_machines_are_journaled(console: ConsoleHarness) -> None:
    """An approval from an address of no machine, and a refused poll, leave no line."""
    console.created("machines", name="vm")
    console.learn_addresses()
    assert console.send_from("vm", "GET", POST, {}).status == 400
    console.act("vm", "delete")
    console.advance(60)
    assert console.send_from("vm", "POST", POST, {}, STRANGE).status == 400
    console.settle()
    assert not console.ok("GET", "/api/journal?newest=true&type=ApprovalRefused")["lines"]


@pytest.mark.spec("O7", "M13")
def test_many_machines_at_once() -> None:
    """Each of ten thousand gets its line (O14), and the lines of an hour are limited."""
    lines: list[RecordRefusal] = []
    now = [0.0]
    log = RefusalLog(lines.append, lambda: now[0])
    for number in range(10_000):
        log.add("web/0", f"web_{number}", "approval", "bad")
    assert len(lines) == 10_000
    for number in range(60_000):
        log.add("web/0", f"web_{number % 10_000}", f"approval {number // 10_000}", "bad")
    assert len(lines) == 65_536
    now[0] += 3600
    log.add("web/0", "web_9999", "another", "bad")
    assert lines[-1].machine == "web_9999"
