from pathlib import Path
from typing import Any

import pytest

from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import Announcement, Fact, FactType
from fairwarning.core.model import EventType, Scope, Source
from fairwarning.store.store import Batch
from tests.console.test_machines import STORES, store_of
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.fleet import NOON


def schedule_freeze(console: ConsoleHarness, machine: str) -> str:
    """Create a machine that polls, schedule a freeze for it, and return the event id."""
    console.polling(machine)
    event: str = console.act(machine, "freeze", key=f"op-{machine}")["events"][0]["id"]
    return event


def timeline(console: ConsoleHarness, seconds: int = 3600) -> dict[str, dict[str, Any]]:
    """Return the events of the timeline by id."""
    response = console.ok("GET", f"/api/timeline?seconds={seconds}")
    return {event["id"]: event for event in response["events"]}


@pytest.mark.spec("C4", "O7")
@pytest.mark.parametrize("kind", STORES)
def test_scheduled_started_ended_and_cancelled_events(kind: str, tmp_path: Path) -> None:
    """Each event has the times of its transitions."""
    with ConsoleHarness(store=store_of(kind, tmp_path)) as console:
        ended, cancelled, started, scheduled = (
            schedule_freeze(console, name) for name in ("a", "b", "c", "d")
        )
        console.approve("a", ended)
        console.advance(60)
        console.ok("POST", f"/api/events/{cancelled}/cancel")
        console.ok("POST", f"/api/events/{started}/approve")
        shown = console.ok("GET", "/api/timeline")
        assert (shown["from"], shown["now"], shown["to"], shown["cut"]) == (
            "2026-01-09T11:01:00Z", "2026-01-09T12:01:00Z", "2026-01-09T12:15:00Z", False,
        )  # fmt: skip
        by_id = {event["id"]: event for event in shown["events"]}
        assert set(by_id) == {ended, cancelled, started, scheduled}
        fields = ("status", "approved_at", "started_at", "ended_at", "cancelled")
        noon, minute = "2026-01-09T12:00:00Z", "2026-01-09T12:01:00Z"
        assert [by_id[ended][name] for name in fields] == [
            "Over", noon, noon, "2026-01-09T12:00:09Z", False,
        ]  # fmt: skip
        assert [by_id[cancelled][name] for name in fields] == ["Over", None, None, minute, True]
        assert [by_id[started][name] for name in fields] == ["Started", minute, minute, None, False]
        assert [by_id[scheduled][name] for name in fields] == ["Scheduled", None, None, None, False]
        assert by_id[scheduled]["not_before"] == "2026-01-09T12:15:00Z"


@pytest.mark.spec("C4")
def test_the_edge_of_the_window(console: ConsoleHarness) -> None:
    """An event that ended at the start of the window is included; a second earlier, it is not."""
    event = schedule_freeze(console, "vm")
    console.approve("vm", event)
    console.advance(9)
    console.advance(100)
    assert set(timeline(console, 100)) == {event}
    assert set(timeline(console, 99)) == set()
    assert timeline(console, 100)[event]["created_at"] == "2026-01-09T12:00:00Z"


@pytest.mark.spec("C4")
def test_events_from_before_the_window(console: ConsoleHarness) -> None:
    """Live and recently ended events keep their creation time from before the window."""
    console.polling("vm")
    console.act("vm", "degrade", key="op", days=6)
    ended = schedule_freeze(console, "other")
    console.advance(899)
    assert len(timeline(console, 10)) == 2
    console.advance(15)
    shown = timeline(console, 10)
    assert shown[ended]["created_at"] == "2026-01-09T12:00:00Z"
    assert shown[ended]["ended_at"] == "2026-01-09T12:15:09Z"
    console.advance(3 * 24 * 3600)
    console.poll("vm")
    (event,) = timeline(console, 1).values()
    assert (event["type"], event["status"]) == ("Redeploy", "Scheduled")


@pytest.mark.spec("C4")
@pytest.mark.parametrize("kind", STORES)
def test_ten_thousand_lines(kind: str, tmp_path: Path) -> None:
    """The search of the journal is bounded, and `cut` says so."""
    with ConsoleHarness(store=store_of(kind, tmp_path)) as console:
        event = schedule_freeze(console, "vm")
        facts = [Fact(FactType.CONFIGURED, detail=str(n)) for n in range(10_000)]
        lines = [JournalLine(NOON, "x", (Scope, "s"), fact) for fact in facts]
        console.run(console._store.commit(Batch(NOON, lines=lines)))
        shown = console.ok("GET", "/api/timeline")
        assert shown["cut"]
        assert [entry["id"] for entry in shown["events"]] == [event]
        console.advance(7200)
        assert not console.ok("GET", "/api/timeline?seconds=60")["cut"]


@pytest.mark.spec("C4")
def test_more_events_than_the_limit(console: ConsoleHarness) -> None:
    """The newest are listed, and `cut` says that there are more."""
    lines = []
    for number in range(600):
        name = f"{number:08d}-0000-0000-0000-000000000000"
        announced = Announcement(EventType.FREEZE, Source.PLATFORM, int(NOON) + 900)
        facts = (
            Fact(FactType.SCHEDULED, name, ("m",), "o", "", announced),
            Fact(FactType.CANCELLED, name, ("m",), "o", "so"),
        )
        lines += [JournalLine(NOON - 1000 + number, "x", (Scope, "s"), fact) for fact in facts]
    console.run(console._store.commit(Batch(NOON, lines=lines)))
    shown = console.ok("GET", "/api/timeline")
    assert (len(shown["events"]), shown["cut"]) == (500, True)
    assert [entry["id"][:8] for entry in shown["events"]] == [f"{n:08d}" for n in range(100, 600)]


@pytest.mark.parametrize("seconds", ["0", "-1", "604801", "x", "1.5", "nan", "inf"])
def test_invalid_windows(console: ConsoleHarness, seconds: str) -> None:
    """A window is a second to a week."""
    assert console.api("GET", f"/api/timeline?seconds={seconds}").error_code == "BadQuery"
