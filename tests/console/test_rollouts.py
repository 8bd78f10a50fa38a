"""Rollouts over the API: their progress, what they wait for, how fast they are, what failed."""

import pytest

from fairwarning.core import limits
from fairwarning.machines.simulated import SimulatedDriver
from tests.console.test_page import Browser
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.fleet import NOON

HOUR = 3600

pytestmark = pytest.mark.spec("C4", "O14", "E7")


def start(console: ConsoleHarness, **settings: object) -> None:
    """Start the rollout `r` of reboots."""
    console.ok("POST", "/api/rollouts", {"id": "r", "kind": "reboot", **settings})


def waits_for(console: ConsoleHarness) -> list[str]:
    """What the rollout waits for."""
    return list(console.ok("GET", "/api/rollouts/r")["waits_for"])


def test_a_rollout_from_start_to_end(console: ConsoleHarness) -> None:
    """A rollout over the whole fleet reports its progress; rollouts are listed in pages."""
    for number in range(4):
        console.created("machines", name=f"vm{number}")
    reply = console.api("POST", "/api/rollouts", {"id": "r", "batch": 2, "kind": "reboot"})
    assert reply.status == 201
    assert reply.json == {
        "id": "r", "kind": "reboot", "actor": "operator", "status": "Running", "why": "",
        "started_at": "2026-01-09T12:00:00Z", "ended_at": None, "machines": 4, "done": 0,
        "failed": 0, "skipped": 0, "progress": 0.0, "batch": 2, "lanes": 4, "running": 2,
        "halt_percent": None, "machines_per_hour": None, "estimated_end": None, "failures": [],
        "waits_for": [
            "the impact on vm0 in scope vm0, until 13:00:00Z at the latest",
            "the impact on vm1 in scope vm1, until 13:00:00Z at the latest",
        ],
    }  # fmt: skip
    console.advance(60)
    assert console.ok("GET", "/api/rollouts/r")["progress"] == 0.5
    console.advance(60)
    done = console.ok("GET", "/api/rollouts/r")
    assert (done["status"], done["progress"], done["running"]) == ("Done", 1.0, 0)
    assert done["ended_at"] == "2026-01-09T12:02:00Z"
    for name in "abcdefg":
        one = console.ok("POST", "/api/rollouts", {"id": name, "scopes": ["vm0", "vm0"]})
        assert one["machines"] == 1
        console.advance(60)
    for limit in (1, 3, 100):
        pages = console.pages("/api/rollouts", "rollouts", limit)
        assert [rollout["id"] for page in pages for rollout in page] == [*"abcdefg", "r"]


def test_an_empty_fleet(console: ConsoleHarness) -> None:
    """An empty fleet has no rollouts, and none can start."""
    assert console.api("POST", "/api/rollouts", {}).error_code == "NothingToDo"
    assert console.api("GET", "/api/rollouts/none").error_code == "UnknownRollout"
    assert console.ok("GET", "/api/rollouts") == {"rollouts": [], "next": None}


def test_a_scheduled_event_is_awaited_until_not_before_and_then_its_impact(
    console: ConsoleHarness,
) -> None:
    """It names the machine, scope and the time; a rollout that ended waits for nothing."""
    console.created("sets", name="web", capacity=2)
    console.poll("web_0")
    start(console)
    assert waits_for(console) == ["Reboot of web_0 in scope web/0, until 12:15:00Z at the latest"]
    console.advance(15 * 60)
    assert waits_for(console) == [
        "the impact on web_0 in scope web/0, until 13:15:00Z at the latest"
    ]
    console.advance(3600)
    assert waits_for(console) == []


def test_a_wave_names_the_scopes_whose_approval_is_missing(console: ConsoleHarness) -> None:
    """Each event of a step over two scopes awaits the other one."""
    console.created("machines", name="left", host="rack")
    console.created("machines", name="right", host="rack")
    console.poll("left", "right")
    start(console, by_host=True)
    assert waits_for(console) == [
        "Reboot of left in scope left, approval in right, until 12:15:00Z at the latest",
        "Reboot of right in scope right, approval in left, until 12:15:00Z at the latest",
    ]


def test_an_approval_before_the_window_opens(console: ConsoleHarness) -> None:
    """The API, both pages and the rollout say that the event starts when the window opens."""
    for name in ("left", "right"):
        rules = {"maintenance_window": "Daily 13:00Z PT1H"}
        console.polling(name, host="rack", rules=rules)
    start(console, by_host=True)
    console.advance(HOUR - 60)
    events = console.ok("GET", "/api/events")["events"]
    assert {event["opens_at"] for event in events} == {"2026-01-09T13:00:00Z"}
    browser, (left, right) = Browser(console), (event["id"] for event in events)
    opens = "its maintenance window opens, at 13:00:00."
    assert f"once all other approvals are in and {opens}" in browser.text(f"/events/{left}")
    console.ok("POST", f"/api/events/{left}/approve")
    assert f"It starts once {opens}" in browser.text(f"/events/{right}")
    bulk = "Each starts once all approvals that it needs are in and its maintenance window"
    assert bulk in browser.text("/events/confirm?action=approve")
    console.ok("POST", f"/api/events/{right}/approve")
    starts = "approved: starts when its maintenance window opens, at 13:00:00Z"
    assert waits_for(console) == [
        f"Reboot of left in scope left, {starts}",
        f"Reboot of right in scope right, {starts}",
    ]
    console.advance(60)
    started = console.ok("GET", "/api/events")["events"]
    assert {event["status"] for event in started} == {"Started"}


@pytest.mark.parametrize(
    ("window", "opens"), [("23:00Z", "23:00:00Z"), ("01:14Z", "2026-01-10 01:14:00Z")]
)
def test_a_time_of_another_day_has_its_date(
    console: ConsoleHarness, window: str, opens: str
) -> None:
    """A window that opens tomorrow is not taken for one of today, however soon that is."""
    console.polling("vm", rules={"maintenance_window": f"Daily {window} PT1H"})
    start(console)
    assert waits_for(console) == [f"the maintenance window, which opens at {opens}"]


@pytest.mark.parametrize("polled", [True, False], ids=["polled", "not polled"])
def test_maintenance_of_another_update_domain_is_in_the_way(
    console: ConsoleHarness, *, polled: bool
) -> None:
    """A scope has one update domain under maintenance at a time, whoever asks (IC6)."""
    console.created("sets", name="web", capacity=2)
    if polled:
        console.poll("web_0")
    console.ok("POST", "/api/machines/web_1/maintain", {"kind": "reboot"})
    start(console)
    what, until = ("Reboot of web_1", "12:15") if polled else ("the impact on web_1", "13:00")
    again = "tried again at 12:00:30Z"
    assert waits_for(console) == [
        f"{what} in scope web/0, until {until}:00Z at the latest, which is in the way; {again}"
    ]


def test_a_paused_rollout_says_who_paused_it(console: ConsoleHarness) -> None:
    """The announced event still goes ahead, then the lane waits for the rollout."""
    console.created("sets", name="web", capacity=2)
    console.poll("web_0")
    start(console)
    console.advance(60)
    console.ok("POST", "/api/rollouts/r/pause")
    paused = "the rollout to be resumed: it was paused by operator at 12:01:00Z"
    event = "Reboot of web_0 in scope web/0, until 12:15:00Z at the latest"
    assert waits_for(console) == [paused, event]
    console.advance(3600)
    assert waits_for(console) == [paused]


def test_failures_are_named_with_their_errors(console: ConsoleHarness) -> None:
    """A rollout that paused itself says why."""
    console.created("machines", name="vm", count=4)
    console.poll("vm_0")  # with an event; the other machines without
    console.driver.failing |= {"vm_0": "no power", "vm_1": "no disk"}
    start(console, batch=1, halt_percent=25)
    console.advance(3600)
    rollout = console.ok("GET", "/api/rollouts/r")
    named = [(f["machine"], f["scope"], f["error"]) for f in rollout["failures"]]
    assert named == [("vm_1", "vm_1", "no disk"), ("vm_0", "vm_0", "no power")]
    (paused,) = rollout["waits_for"]
    assert paused.startswith("the rollout to be resumed: it paused itself at 12:1")
    assert paused.endswith(", because 2 of 4 machines failed, more than 25 %")


def test_a_late_report_takes_a_failure_back(console: ConsoleHarness) -> None:
    """A machine that was given up, and reports success later, is no longer named."""
    console.created("machines", name="left", host="rack")
    console.created("machines", name="right", host="rack")
    console.driver.failing["right"] = "no power"
    slow = SimulatedDriver(lambda seconds, call: console.clock.call_at(NOON + 2 * HOUR, call))
    console.driver.inner = slow
    start(console, by_host=True)
    console.advance(HOUR)
    failures = console.ok("GET", "/api/rollouts/r")["failures"]
    assert {failure["machine"] for failure in failures} == {"left", "right"}
    console.advance(HOUR)
    (failure,) = console.ok("GET", "/api/rollouts/r")["failures"]
    assert failure["machine"] == "right"


def test_an_impact_or_a_full_scope_in_the_way(
    console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever keeps a step from starting is named."""
    console.created("machines", name="vm", count=2, priority="Spot")
    console.act("vm_0", "restart")
    console.poll("vm_1")
    console.act("vm_1", "recommend")
    monkeypatch.setattr(limits, "SCOPE_EVENTS", 1)
    start(console)
    impact = "the impact on vm_0 in scope vm_0, until 13:00:00Z at the latest"
    full = "the end of one of the 1 events in scope vm_1"
    again = "which is in the way; tried again at 12:00:30Z"
    assert waits_for(console) == [f"{impact}, {again}", f"{full}, {again}"]


def test_the_rate_and_the_estimated_end(console: ConsoleHarness) -> None:
    """Both are by fleet time; a paused rollout has no estimate."""
    console.created("machines", name="vm", count=4)
    start(console, batch=1)
    console.advance(60)
    rollout = console.ok("GET", "/api/rollouts/r")
    assert rollout["machines_per_hour"] == 60
    assert rollout["estimated_end"] == "2026-01-09T12:04:00Z"
    console.ok("POST", "/api/rollouts/r/pause")
    console.advance(60)
    assert console.ok("GET", "/api/rollouts/r")["estimated_end"] is None


def test_a_large_rollout_names_ten_things(console: ConsoleHarness) -> None:
    """The tenth says how many more there are."""
    console.created("machines", name="vm", count=30)
    start(console, batch=25)
    sentences = waits_for(console)
    assert len(sentences) == 10
    assert sentences[-1] == "16 more events and impacts"


def test_the_page_shows_failures_before_what_the_rollout_waits_for(
    console: ConsoleHarness,
) -> None:
    """A failed machine is linked, with its error; the rate and the estimated end are shown."""
    console.created("machines", name="vm", count=4)
    console.poll("vm_2")
    console.driver.failing["vm_0"] = "no <power>"
    console.ok("POST", "/api/rollouts", {"id": "r", "kind": "reboot", "batch": 1})
    console.advance(120)
    text = Browser(console).text("/rollouts/r")
    failed = '<a href="/machines/vm_0/vm_0">vm_0</a> failed at 12:01:00: no &lt;power&gt;'
    waits = "Reboot of vm_2 in scope vm_2, until 12:17:00Z at the latest"
    places = [text.index(part) for part in (failed, f"<li>{waits}", 'id="events-title"')]
    assert places == sorted(places)
    assert "60 machines an hour" in text
    assert "12:04:00, at this rate" in text
