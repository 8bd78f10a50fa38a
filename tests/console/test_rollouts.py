import pytest

from tests.fixtures.console import ConsoleHarness

pytestmark = pytest.mark.spec("C4", "E7")


def fleet(console: ConsoleHarness, machines: int = 4) -> None:
    """Create standalone machines, each on its own host."""
    for number in range(machines):
        console.created("machines", name=f"vm{number}", host=f"host{number}")


def test_a_rollout_from_start_to_end(console: ConsoleHarness) -> None:
    """A rollout over the whole fleet reports its progress; rollouts are listed in pages."""
    fleet(console)
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
        console.ok("POST", "/api/rollouts", {"id": name, "scopes": ["vm0"]})
        console.advance(60)
    for limit in (1, 3, 100):
        pages = console.pages("/api/rollouts", "rollouts", limit)
        assert [rollout["id"] for page in pages for rollout in page] == [*"abcdefg", "r"]


def test_a_rollout_pauses_at_its_failure_threshold(console: ConsoleHarness) -> None:
    """It says why, and continues when resumed."""
    fleet(console)
    console.driver.failing |= {"vm0": "no power", "vm1": "no power"}
    settings = {"id": "r", "batch": 1, "kind": "reboot", "halt_percent": 25}
    console.ok("POST", "/api/rollouts", settings)
    console.advance(60)
    first = console.ok("GET", "/api/rollouts/r")
    assert (first["status"], first["failed"], first["why"]) == ("Running", 1, "")
    console.advance(60)
    paused = console.ok("GET", "/api/rollouts/r")
    assert (paused["status"], paused["failed"]) == ("Paused", 2)
    assert paused["why"] == "2 of 4 machines failed, more than 25 %"
    console.advance(3600)
    later = console.ok("GET", "/api/rollouts/r")
    assert later == paused | {"machines_per_hour": later["machines_per_hour"]}
    resumed = console.ok("POST", "/api/rollouts/r/resume")
    assert (resumed["status"], resumed["why"]) == ("Running", "")
    console.advance(120)
    assert console.ok("GET", "/api/rollouts/r")["status"] == "Done"


def test_pause_resume_and_abort(console: ConsoleHarness) -> None:
    """A transition that the state does not allow is a conflict and changes nothing."""
    fleet(console)
    console.poll("vm0", "vm1", "vm2", "vm3")
    console.ok("POST", "/api/rollouts", {"id": "r", "batch": 1})
    assert len(console.ok("GET", "/api/events")["events"]) == 1
    assert console.ok("POST", "/api/rollouts/r/pause")["status"] == "Paused"
    assert console.api("POST", "/api/rollouts/r/pause").status == 409
    assert console.ok("POST", "/api/rollouts/r/resume")["status"] == "Running"
    assert console.ok("POST", "/api/rollouts/r/abort")["status"] == "Aborted"
    assert console.ok("GET", "/api/events")["events"] == []
    before = console.state()
    for action in ("pause", "resume", "abort"):
        assert console.api("POST", f"/api/rollouts/r/{action}").status == 409
        assert console.api("POST", f"/api/rollouts/none/{action}").status == 404
    assert console.api("POST", "/api/rollouts/r/jump").status == 404
    assert console.state() == before


def test_an_empty_fleet(console: ConsoleHarness) -> None:
    """An empty fleet has no rollouts, and none can start."""
    assert console.api("POST", "/api/rollouts", {}).error_code == "NothingToDo"
    assert console.api("GET", "/api/rollouts/none").error_code == "UnknownRollout"
    assert console.ok("GET", "/api/rollouts") == {"rollouts": [], "next": None}


def test_scopes_sets_and_hosts(console: ConsoleHarness) -> None:
    """A rollout covers each named scope once, the scopes of sets, or machines of some hosts."""
    fleet(console, 2)
    console.created("sets", name="web", capacity=3)
    both = console.ok(
        "POST", "/api/rollouts", {"id": "a", "scopes": ["vm0", "vm0"], "sets": ["web"]}
    )
    assert both["machines"] == 4
    console.advance(3600)
    on_host = console.ok("POST", "/api/rollouts", {"id": "b", "hosts": ["host1"]})
    assert on_host["machines"] == 1
