from typing import Any

import pytest

from fairwarning.core.decision import FactType
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.endpoint import poll

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
