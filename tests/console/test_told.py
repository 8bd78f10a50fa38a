from typing import Any

import pytest

from fairwarning.core.decision import FactType
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.endpoint import poll

OLD = "2017-03-01"  # shows no Preempt and no Terminate (M9)


def told(console: ConsoleHarness, event: str) -> list[tuple[str, str]]:
    """Which machines were told of an event, and when."""
    console.tell()
    story = console.ok("GET", f"/api/events/{event}/explain")
    return [(one["machine"], one["at"][11:19]) for one in story["told"]]


def lines(console: ConsoleHarness, event: str) -> list[dict[str, Any]]:
    """What the journal says of that."""
    console.tell()
    found = console.ok("GET", f"/api/journal?event={event}")["lines"]
    return [line for line in found if line["type"] == FactType.DELIVERED]


@pytest.mark.spec("O7", "M16")
def test_each_machine_that_asks_is_told_once() -> None:
    """However often it asks, on however many connections; all of the scope, whoever is meant."""
    with ConsoleHarness() as console:
        console.make("av", 3)
        console.poll("av_0")
        event = console.freeze("av_1").id
        assert told(console, event) == []
        for _ in range(3):
            console.poll("av_0")
        console.advance(10)
        connection = console.client("av_2")
        for _ in range(3):
            assert poll(connection).status == 200
        assert told(console, event) == [("av_0", "12:00:00"), ("av_2", "12:00:10")]
        console.advance(10)
        console.poll("av_0", "av_1", "av_2")
        assert told(console, event)[2:] == [("av_1", "12:00:20")]
        assert [line["machines"] for line in lines(console, event)] == [
            ["av_0"],
            ["av_2"],
            ["av_1"],
        ]
        assert {line["actor"] for line in lines(console, event)} == {"machine"}


@pytest.mark.spec("O7", "M9")
def test_a_version_that_does_not_show_it_tells_nobody() -> None:
    """A client too old for an event has not been told of it."""
    with ConsoleHarness() as console:
        console.created("machines", name="spot", priority="Spot")
        console.poll("spot")
        event = console.act("spot", "evict", key="op")["events"][0]["id"]
        assert console.get("spot", OLD).json["Events"] == []
        assert told(console, event) == []


@pytest.mark.spec("O7", "M9")
def test_a_newer_client_beside_an_old_one_is_told() -> None:
    """Two programs in one machine: the second sees what the first cannot."""
    with ConsoleHarness() as console:
        console.created("machines", name="spot", priority="Spot")
        console.poll("spot")
        event = console.act("spot", "evict", key="op")["events"][0]["id"]
        assert console.get("spot", OLD).json["Events"] == []
        console.advance(5)
        assert [one["EventId"] for one in console.get("spot").json["Events"]] == [event]
        assert told(console, event) == [("spot", "12:00:05")]


@pytest.mark.spec("O7", "M11")
def test_nothing_new_tells_nothing() -> None:
    """304 is no news; nor is an answer that a fault spoiled."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        console.poll("vm")
        event = console.act("vm", "restart", key="op")["events"][0]["id"]
        console.ok("POST", "/api/faults", {"kind": "500", "machine": "vm", "count": 1})
        assert console.get("vm").status == 500
        assert told(console, event) == []
        tag = console.get("vm").headers["etag"]
        assert console.get("vm", **{"If-None-Match": tag}).status == 304
        assert len(lines(console, event)) == 1


@pytest.mark.spec("O7", "M18")
def test_a_long_poll_is_told_when_it_is_answered() -> None:
    """Held until there is something to tell."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        tag = console.get("vm").headers["etag"]
        held = console.begin("vm", more="&wait=30", **{"If-None-Match": tag})
        console.wait_until(lambda: console.server.counts.held == 1)
        console.advance(7)
        event = console.act("vm", "restart", key="op")["events"][0]["id"]
        assert held.getresponse().status == 200
        assert told(console, event) == [("vm", "12:00:07")]


@pytest.mark.spec("O7", "E9")
def test_after_a_restart_it_may_be_told_again() -> None:
    """Harmless: the first time counts."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        console.poll("vm")
        event = console.act("vm", "restart", key="op")["events"][0]["id"]
        console.poll("vm")
        console.advance(30)
        console.restart_service()
        console.poll("vm")
        assert told(console, event) == [("vm", "12:00:00")]
        console.approve("vm", event)
        console.advance(60)
        assert told(console, event) == [("vm", "12:00:00")]


@pytest.mark.spec("O7")
def test_a_clean_stop_forgets_nobody() -> None:
    """Who asked in the last moment stands in the journal all the same."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        console.poll("vm")
        event = console.act("vm", "restart", key="op")["events"][0]["id"]
        assert console.get("vm").status == 200
        console.restart_service()
        assert told(console, event) == [("vm", "12:00:00")]


def test_events_that_are_over_are_forgotten() -> None:
    """Nothing is kept of them in memory."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        console.poll("vm")
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
def test_telling_changes_no_document() -> None:
    """It is for the journal alone: the incarnation stays, and long polls are not woken."""
    with ConsoleHarness() as console:
        console.make("av", 2)
        console.poll("av_0")
        console.freeze("av_0")
        before = console.get("av_0").json
        console.tell()
        console.poll("av_1")
        assert console.get("av_0").json == before
