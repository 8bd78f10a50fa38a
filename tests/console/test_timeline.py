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


def frozen(console: ConsoleHarness, machine: str) -> str:
    """A freeze is announced for a machine that asks: the event's id."""
    console.created("machines", name=machine)
    console.poll(machine)
    event: str = console.act(machine, "freeze", key=f"op-{machine}")["events"][0]["id"]
    return event


def seen(console: ConsoleHarness, seconds: int = 3600) -> dict[str, dict[str, Any]]:
    """What the timeline shows, by event."""
    shown = console.ok("GET", f"/api/timeline?seconds={seconds}")
    return {one["id"]: one for one in shown["events"]}


@pytest.mark.spec("C4", "O7")
@pytest.mark.parametrize("kind", STORES)
def test_planned_under_way_over_and_cancelled(kind: str, tmp_path: Path) -> None:
    """Each with the moments of its life, in order of their creation."""
    with ConsoleHarness(store=store_of(kind, tmp_path)) as console:
        over, cancelled, going, planned = (frozen(console, name) for name in ("a", "b", "c", "d"))
        console.approve("a", over)
        console.advance(60)
        console.ok("POST", f"/api/events/{cancelled}/cancel")
        console.ok("POST", f"/api/events/{going}/approve")
        shown = console.ok("GET", "/api/timeline")
        assert (shown["from"], shown["now"], shown["to"], shown["cut"]) == (
            "2026-01-09T11:01:00Z", "2026-01-09T12:01:00Z", "2026-01-09T12:15:00Z", False,
        )  # fmt: skip
        by_id = {one["id"]: one for one in shown["events"]}
        assert set(by_id) == {over, cancelled, going, planned}
        moments = ("status", "approved_at", "started_at", "ended_at", "cancelled")
        noon, minute = "2026-01-09T12:00:00Z", "2026-01-09T12:01:00Z"
        assert [by_id[over][name] for name in moments] == [
            "Over", noon, noon, "2026-01-09T12:00:09Z", False,
        ]  # fmt: skip
        assert [by_id[cancelled][name] for name in moments] == ["Over", None, None, minute, True]
        assert [by_id[going][name] for name in moments] == ["Started", minute, minute, None, False]
        assert [by_id[planned][name] for name in moments] == ["Scheduled", None, None, None, False]
        assert by_id[planned]["not_before"] == "2026-01-09T12:15:00Z"


@pytest.mark.spec("C4")
def test_the_edge_of_the_window() -> None:
    """An event that ended in its first moment is shown; a second later it is not."""
    with ConsoleHarness() as console:
        event = frozen(console, "vm")
        console.approve("vm", event)
        console.advance(9)
        console.advance(100)
        assert set(seen(console, 100)) == {event}
        assert set(seen(console, 99)) == set()
        assert seen(console, 100)[event]["created_at"] == "2026-01-09T12:00:00Z"


@pytest.mark.spec("C4")
def test_events_from_before_the_window() -> None:
    """One that is still there, and one that ended lately, are known from their beginnings."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        console.poll("vm")
        console.act("vm", "degrade", key="op", days=6)
        ends = frozen(console, "other")
        console.advance(899)
        assert len(seen(console, 10)) == 2
        console.advance(15)
        shown = seen(console, 10)
        assert shown[ends]["created_at"] == "2026-01-09T12:00:00Z"
        assert shown[ends]["ended_at"] == "2026-01-09T12:15:09Z"
        console.advance(3 * 24 * 3600)
        console.poll("vm")
        (left,) = seen(console, 1).values()
        assert (left["type"], left["status"]) == ("Redeploy", "Scheduled")


@pytest.mark.spec("C4")
@pytest.mark.parametrize("kind", STORES)
def test_ten_thousand_lines(kind: str, tmp_path: Path) -> None:
    """It looks through a bounded part of the journal and says that it did."""
    with ConsoleHarness(store=store_of(kind, tmp_path)) as console:
        event = frozen(console, "vm")
        facts = [Fact(FactType.CONFIGURED, detail=str(n)) for n in range(10_000)]
        lines = [JournalLine(NOON, "x", (Scope, "s"), fact) for fact in facts]
        console.run(console._store.commit(Batch(NOON, lines=lines)))
        shown = console.ok("GET", "/api/timeline")
        assert shown["cut"]
        assert [one["id"] for one in shown["events"]] == [event]
        console.advance(7200)
        assert not console.ok("GET", "/api/timeline?seconds=60")["cut"]


@pytest.mark.spec("C4")
def test_more_events_than_are_shown() -> None:
    """The newest, and it says that there were more."""
    with ConsoleHarness() as console:
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
        assert [one["id"][:8] for one in shown["events"]] == [f"{n:08d}" for n in range(100, 600)]


@pytest.mark.parametrize("seconds", ["0", "-1", "604801", "x", "1.5", "nan", "inf"])
def test_a_window_that_cannot_be(seconds: str) -> None:
    """A second to a week."""
    with ConsoleHarness() as console:
        assert console.api("GET", f"/api/timeline?seconds={seconds}").error_code == "BadQuery"
