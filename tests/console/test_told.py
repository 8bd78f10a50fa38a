from typing import Any

import pytest

from fairwarning.core.decision import Did
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.endpoint import poll

OLD = "2017-03-01"  # shows no Preempt and no Terminate (M9)


def told(it: ConsoleHarness, event: str) -> list[tuple[str, str]]:
    """Which machines were told of an event, and when."""
    it.tell()
    story = it.ok("GET", f"/api/events/{event}/explain")
    return [(one["machine"], one["at"][11:19]) for one in story["told"]]


def lines(it: ConsoleHarness, event: str) -> list[dict[str, Any]]:
    """What the journal says of that."""
    it.tell()
    found = it.ok("GET", f"/api/journal?event={event}")["lines"]
    return [line for line in found if line["did"] == Did.TOLD]


@pytest.mark.spec("O7", "M16")
def test_each_machine_that_asks_is_told_once() -> None:
    """However often it asks, on however many connections; all of the scope, whoever is meant."""
    with ConsoleHarness() as it:
        it.make("av", 3)
        it.poll("av_0")
        event = it.freeze("av_1").id
        assert told(it, event) == []
        for _ in range(3):
            it.poll("av_0")
        it.advance(10)
        connection = it.client("av_2")
        for _ in range(3):
            assert poll(connection).status == 200
        assert told(it, event) == [("av_0", "12:00:00"), ("av_2", "12:00:10")]
        it.advance(10)
        it.poll("av_0", "av_1", "av_2")
        assert told(it, event)[2:] == [("av_1", "12:00:20")]
        assert [line["machine"] for line in lines(it, event)] == ["av_0", "av_2", "av_1"]
        assert {line["actor"] for line in lines(it, event)} == {"machine"}


@pytest.mark.spec("O7", "M9")
def test_a_version_that_does_not_show_it_tells_nobody() -> None:
    """A client too old for an event has not been told of it."""
    with ConsoleHarness() as it:
        it.created("machines", name="spot", priority="Spot")
        it.poll("spot")
        event = it.act("spot", "evict", key="op")["events"][0]["id"]
        assert it.get("spot", OLD).json["Events"] == []
        assert told(it, event) == []


@pytest.mark.spec("O7", "M9")
def test_a_newer_client_beside_an_old_one_is_told() -> None:
    """Two programs in one machine: the second sees what the first cannot."""
    with ConsoleHarness() as it:
        it.created("machines", name="spot", priority="Spot")
        it.poll("spot")
        event = it.act("spot", "evict", key="op")["events"][0]["id"]
        assert it.get("spot", OLD).json["Events"] == []
        it.advance(5)
        assert [one["EventId"] for one in it.get("spot").json["Events"]] == [event]
        assert told(it, event) == [("spot", "12:00:05")]


@pytest.mark.spec("O7", "M11")
def test_nothing_new_tells_nothing() -> None:
    """304 is no news; nor is an answer that a fault spoiled."""
    with ConsoleHarness() as it:
        it.created("machines", name="vm")
        it.poll("vm")
        event = it.act("vm", "restart", key="op")["events"][0]["id"]
        it.ok("POST", "/api/faults", {"kind": "500", "machine": "vm", "count": 1})
        assert it.get("vm").status == 500
        assert told(it, event) == []
        tag = it.get("vm").headers["etag"]
        assert it.get("vm", **{"If-None-Match": tag}).status == 304
        assert len(lines(it, event)) == 1


@pytest.mark.spec("O7", "M18")
def test_a_long_poll_is_told_when_it_is_answered() -> None:
    """Held until there is something to tell."""
    with ConsoleHarness() as it:
        it.created("machines", name="vm")
        tag = it.get("vm").headers["etag"]
        held = it.begin("vm", more="&wait=30", **{"If-None-Match": tag})
        it.wait_until(lambda: it.server.counts.held == 1)
        it.advance(7)
        event = it.act("vm", "restart", key="op")["events"][0]["id"]
        assert held.getresponse().status == 200
        assert told(it, event) == [("vm", "12:00:07")]


@pytest.mark.spec("O7", "E9")
def test_after_a_restart_it_may_be_told_again() -> None:
    """Harmless: the first time counts."""
    with ConsoleHarness() as it:
        it.created("machines", name="vm")
        it.poll("vm")
        event = it.act("vm", "restart", key="op")["events"][0]["id"]
        it.poll("vm")
        it.advance(30)
        it.restart_service()
        it.poll("vm")
        assert told(it, event) == [("vm", "12:00:00")]
        it.approve("vm", event)
        it.advance(60)
        assert told(it, event) == [("vm", "12:00:00")]


@pytest.mark.spec("O7")
def test_a_clean_stop_forgets_nobody() -> None:
    """Who asked in the last moment stands in the journal all the same."""
    with ConsoleHarness() as it:
        it.created("machines", name="vm")
        it.poll("vm")
        event = it.act("vm", "restart", key="op")["events"][0]["id"]
        assert it.get("vm").status == 200
        it.restart_service()
        assert told(it, event) == [("vm", "12:00:00")]


def test_events_that_are_over_are_forgotten() -> None:
    """Nothing is kept of them in memory."""
    with ConsoleHarness() as it:
        it.created("machines", name="vm")
        it.poll("vm")
        for number in range(5):
            event = it.act("vm", "restart", key=f"op{number}")["events"][0]["id"]
            it.poll("vm")
            it.approve("vm", event)
            it.advance(60)
        assert it.fleet.told._known == {}
        assert it.fleet.told._new == {}
        it.act("vm", "restart", key="last")
        assert it.get("vm").status == 200
        it.ok("POST", "/api/machines/vm/delete", key="gone")
        it.advance(3600)
        assert it.fleet.told._known == {}


@pytest.mark.spec("O7")
def test_telling_changes_no_document() -> None:
    """It is for the journal alone: the incarnation stays, and long polls are not woken."""
    with ConsoleHarness() as it:
        it.make("av", 2)
        it.poll("av_0")
        it.freeze("av_0")
        before = it.get("av_0").json
        it.tell()
        it.poll("av_1")
        assert it.get("av_0").json == before
