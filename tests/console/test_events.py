import pytest

from fairwarning.core.decision import FactType
from tests.console.conftest import each_store
from tests.fixtures.console import ConsoleHarness

pytestmark = pytest.mark.spec("C4")


def schedule_freeze(console: ConsoleHarness, machine: str = "vm") -> str:
    """Create a machine that polls, schedule a freeze for it, and return the event id."""
    console.polling(machine)
    event: str = console.act(machine, "freeze", key=f"op-{machine}")["events"][0]["id"]
    return event


def test_an_event_from_start_to_end(console: ConsoleHarness) -> None:
    """It is scheduled, started and over; while it is live, every list includes it."""
    event = schedule_freeze(console)
    shown = console.ok("GET", f"/api/events/{event}")
    assert shown == {
        "id": event, "type": "Freeze", "status": "Scheduled", "source": "Platform",
        "scope": "vm", "resources": ["vm"], "created_at": "2026-01-09T12:00:00Z",
        "not_before": "2026-01-09T12:15:00Z", "opens_at": None, "operation": "op-vm",
        "impact": "freeze", "duration_seconds": 9, "approved_by": "", "awaits": [],
        "description": shown["description"],
    }  # fmt: skip
    assert shown["description"]
    for events in (
        console.ok("GET", "/api/events")["events"],
        console.ok("GET", "/api/events?scope=vm")["events"],
        console.ok("GET", "/api/events?machine=vm")["events"],
        console.ok("GET", "/api/machines/vm")["events"],
        console.ok("GET", "/api/scopes/vm")["events"],
    ):
        assert events == [shown]
    console.advance(30)
    started = console.ok("POST", f"/api/events/{event}/approve")
    assert (started["status"], started["approved_by"]) == ("Started", "operator")
    assert console.ok("GET", "/api/machines/vm")["doing"] == "freeze"
    assert console.ok("POST", f"/api/events/{event.lower()}/approve")["status"] == "Started"
    console.advance(9)
    over = console.ok("GET", f"/api/events/{event}")
    ended = {"status": "Over", "impact": None, "duration_seconds": -1, "description": ""}
    assert over == shown | ended | {"approved_by": "operator"}
    assert console.ok("POST", f"/api/events/{event}/approve") == over  # a repeat (M12)
    assert console.ok("GET", "/api/events")["events"] == []


@pytest.mark.spec("E2")
def test_cancel(console: ConsoleHarness) -> None:
    """A cancelled event is over and its operation canceled; a started event cannot be cancelled."""
    event = schedule_freeze(console)
    for _ in range(2):  # a repeat is not an error
        assert console.ok("POST", f"/api/events/{event}/cancel")["status"] == "Over"
    assert console.ok("GET", "/api/operations/op-vm")["status"] == "Canceled"
    other = schedule_freeze(console, "other")
    console.ok("POST", f"/api/events/{other}/approve")
    before = console.state()
    assert console.api("POST", f"/api/events/{other}/cancel").status == 409
    assert console.state() == before


def test_an_approval_of_what_was_cancelled_is_refused(console: ConsoleHarness) -> None:
    """Also if the event was approved before, and waited for its window: it did not happen."""
    console.polling("vm", rules={"maintenance_window": "Daily 12:15Z PT1H"})
    console.ok("POST", "/api/rollouts", {"id": "r", "kind": "reboot"})
    (event,) = console.ok("GET", "/api/events")["events"]
    for verb, status in (("approve", "Scheduled"), ("approve", "Scheduled"), ("cancel", "Over")):
        assert console.ok("POST", f"/api/events/{event['id']}/{verb}")["status"] == status
    assert console.api("POST", f"/api/events/{event['id']}/approve").error_code == "EventOver"


@pytest.mark.parametrize("verb", ["approve", "cancel"])
def test_ended_and_unknown_events(console: ConsoleHarness, verb: str) -> None:
    """They get 409 and 404, and nothing changes; a part of an id is unknown."""
    event = schedule_freeze(console)
    unknown = "00000000-0000-0000-0000-000000000000"
    console.advance(3600)  # nobody has approved it
    before = console.state()
    for name, status, code in (
        (event, 409, "EventOver"),
        (unknown, 404, "UnknownEvent"),
        (event[:8], 404, "UnknownEvent"),
        ("%00", 404, "UnknownEvent"),
        ("x" * 5000, 404, "UnknownEvent"),
    ):
        reply = console.api("POST", f"/api/events/{name}/{verb}")
        assert (reply.status, reply.error_code) == (status, code)
        assert len(reply.error_message) < 500
    assert console.state() == before


@each_store
def test_events_come_in_pages(console: ConsoleHarness) -> None:
    """Each event is listed once, by its start."""
    console.created("machines", name="vm", count=15)
    console.created("sets", name="web", capacity=10)
    console.poll(*(f"vm_{n}" for n in range(15)), "web_0")
    for number in range(15):
        console.act(f"vm_{number}", "freeze")
    console.ok("POST", "/api/sets/web/restart", key="web")
    every = console.ok("GET", "/api/events?limit=1000")["events"]
    starts = [event["not_before"] for event in every]
    assert starts == sorted(starts)
    assert len(every) > 15
    for limit in (1, 4, len(every), 500):
        pages = console.pages("/api/events", "events", limit)
        assert [event for page in pages for event in page] == every
    assert console.ok("GET", "/api/events?machine=web_3")["next"] is None
    assert console.api("GET", "/api/events?machine=none").error_code == "UnknownMachine"
    assert console.api("GET", "/api/events?scope=none").error_code == "UnknownScope"


@pytest.mark.spec("O7")
def test_the_operation_of_a_rollout_step(console: ConsoleHarness) -> None:
    """Its id contains slashes; it can be read and explained."""
    console.polling("vm")
    console.ok("POST", "/api/rollouts", {"id": "r", "scopes": ["vm"]})
    operation = console.ok("GET", "/api/events")["events"][0]["operation"]
    assert console.ok("GET", f"/api/operations/{operation}")["id"] == operation
    assert console.ok("GET", f"/api/operations/{operation}/explain")["id"] == operation


# --- The journal ---


@pytest.mark.spec("O7")
@each_store
def test_the_journal_in_pages(console: ConsoleHarness) -> None:
    """Both directions list each line once; lines can be filtered by event and by scope."""
    event = schedule_freeze(console)
    console.created("machines", name="more", count=20)
    console.ok("POST", f"/api/events/{event}/approve")
    console.advance(60)
    lines = console.ok("GET", "/api/journal?limit=1000")["lines"]
    assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))
    assert len(lines) > 60
    for limit in (1, 7, len(lines)):
        pages = console.pages("/api/journal", "lines", limit)
        assert [line for page in pages for line in page] == lines
    newest_first, before = [], ""
    while True:
        page = console.ok("GET", f"/api/journal?newest=true&limit=9{before}")
        newest_first += page["lines"]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert newest_first == lines[::-1]
    own = console.ok("GET", f"/api/journal?event={event.lower()}")["lines"]
    assert own == [line for line in lines if line["event"] == event]
    types = [line["type"] for line in own]
    assert types[0] == FactType.SCHEDULED
    assert types[-1] == FactType.ENDED
    of_scope = console.ok("GET", "/api/journal?newest=true&scope=vm")["lines"]
    assert of_scope == [line for line in lines[::-1] if line["about"] == "Scope vm"]
    assert console.ok("GET", "/api/journal?newest=true&scope=none")["lines"] == []
    assert console.api("GET", "/api/journal?scope=vm").error_code == "BadQuery"
