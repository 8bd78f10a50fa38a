from pathlib import Path
from typing import Any

import pytest

from fairwarning.core.cascade import JournalLine
from fairwarning.core.commands import DropOperation
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.model import Scope
from fairwarning.store.store import Batch, Store
from tests.console.conftest import each_store
from tests.console.explanation_cases import CASES, Case, render
from tests.console.test_page import Browser
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.fleet import NOON

pytestmark = pytest.mark.spec("O7")

FOLDER = Path(__file__).parent / "explanations"


def path_of(case: Case) -> Path:
    """Return the file with the text of a case."""
    return FOLDER / f"{case.__name__.replace('_', '-')}.txt"


@each_store
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_explanation(case: Case, store: Store, request: pytest.FixtureRequest) -> None:
    """Each life cycle is explained exactly as its file says, whatever the store."""
    text = render(case, store)
    if request.config.getoption("--rewrite-explanations", default=False):
        path_of(case).write_text(text, encoding="utf-8")
    assert text == path_of(case).read_text(encoding="utf-8")


def test_an_explanation_survives_restarts_and_newer_lines(console: ConsoleHarness) -> None:
    """The text is the same after both; ids are case-insensitive."""
    console.polling("vm")
    event = console.act("vm", "restart", key="op")["events"][0]["id"]
    console.poll("vm")
    console.approve("vm", event)
    console.advance(100)
    before = console.ok("GET", f"/api/events/{event}/explain")
    operation = console.ok("GET", "/api/operations/op/explain")
    console.restart_service()
    facts = [Fact(FactType.CONFIGURED, detail=str(n)) for n in range(6000)]
    lines = [JournalLine(NOON + 200, "x", (Scope, "vm"), fact) for fact in facts]
    console.run(console._store.commit(Batch(NOON + 200, lines=lines)))
    assert console.ok("GET", f"/api/events/{event}/explain") == before
    assert console.ok("GET", "/api/operations/op/explain") == operation
    assert console.ok("GET", f"/api/events/{event.lower()}/explain") == before


@pytest.mark.spec("E10")
def test_an_event_and_its_explanation_agree_on_who_approved(console: ConsoleHarness) -> None:
    """Also in a wave of which one scope does not poll, so that nobody can approve there."""
    console.polling("polled", host="rack")
    console.created("machines", name="silent", host="rack")
    console.ok("POST", "/api/rollouts", {"id": "r", "by_host": True})
    for machine in ("polled", "silent"):
        (event,) = console.ok("GET", f"/api/machines/{machine}")["events"]
        if machine == "polled":
            console.approve("polled", event["id"])
        event = console.ok("GET", f"/api/events/{event['id']}")
        (approval,) = console.ok("GET", f"/api/events/{event['id']}/explain")["approvals"]
        expected = "polled" if machine == "polled" else "nobody, as nobody polls"
        assert approval["by"] == event["approved_by"] == expected


# --- What exists stays usable when retention has dropped its journal lines (IR2) ---


def drop_lines(console: ConsoleHarness, seconds: float) -> None:
    """Drop the journal lines from before this many seconds after noon."""
    while console.run(console._store.drop_old_lines(NOON + seconds)):
        pass


def degraded(console: ConsoleHarness) -> Any:  # noqa: ANN401  (JSON)
    """Announce a failure of a polled machine; return the event."""
    console.polling("vm")
    return console.act("vm", "degrade", key="op")["events"][0]


@each_store
def test_a_live_event_without_lines_can_be_read_and_cancelled(console: ConsoleHarness) -> None:
    """It is known by the document, not only by the journal."""
    event = degraded(console)
    drop_lines(console, 1)
    assert console.ok("GET", f"/api/events/{event['id'].lower()}") == event
    explained = console.ok("GET", f"/api/events/{event['id']}/explain")
    assert explained["title"] == "Redeploy of vm in vm, requested by operator (Degrade)"
    assert explained["summary"] == "Scheduled since 12:00:00."
    assert explained["steps"] == []
    assert event["id"] in Browser(console).text("/timeline")
    assert console.api("GET", "/api/events/unknown").error_code == "UnknownEvent"
    assert console.ok("POST", f"/api/events/{event['id']}/cancel")["status"] == "Over"


@each_store
def test_a_started_event_without_its_announcement_is_shown(console: ConsoleHarness) -> None:
    """The document has what the dropped line said."""
    event = degraded(console)
    console.advance(60)
    console.approve("vm", event["id"])
    console.settle()
    drop_lines(console, 60)
    explained = console.ok("GET", f"/api/events/{event['id']}/explain")
    assert explained["title"] == "Redeploy of vm in vm, requested by operator (Degrade)"
    assert explained["summary"] == "Started since 12:01:00."
    text = Browser(console).text("/timeline")
    assert f'data-key="{event["id"]}" class="row in-progress"' in text


@each_store
def test_a_past_event_without_its_announcement_is_explained(console: ConsoleHarness) -> None:
    """By the lines that are left; the explanation says that one is missing."""
    event = degraded(console)
    console.advance(60)
    console.approve("vm", event["id"])
    console.advance(600)
    drop_lines(console, 60)
    explained = console.ok("GET", f"/api/events/{event['id']}/explain")
    assert explained["title"] == "Event of vm in vm, requested by operator (Degrade)"
    assert explained["summary"] == "Ended; the journal no longer has its announcement."
    past = console.ok("GET", f"/api/events/{event['id']}")
    assert (past["created_at"], past["resources"]) == ("2026-01-09T12:01:00Z", ["vm"])


@each_store
def test_an_operation_and_a_machine_without_lines_are_explained(console: ConsoleHarness) -> None:
    """By their state."""
    degraded(console)
    drop_lines(console, 1)
    operation = console.ok("GET", "/api/operations/op/explain")
    assert (operation["summary"], operation["steps"]) == (
        "InProgress: 0 of 1 impacts done.",
        [],
    )
    machine = console.ok("GET", "/api/machines/vm/explain")
    assert (machine["summary"], machine["steps"]) == (
        "Running; events: Redeploy (Scheduled).",
        [],
    )
    assert console.api("GET", "/api/machines/vm2/explain").status == 404


@each_store
def test_a_repeated_key_is_explained_without_the_dropped_operation(console: ConsoleHarness) -> None:
    """The journal still has the lines of the first one."""
    event = degraded(console)
    console.approve("vm", event["id"])
    console.advance(600)
    drop = DropOperation(operation="op", before=NOON + 600)
    console.run(console.fleet.submit(drop))
    assert console.api("GET", "/api/operations/op").error_code == "UnknownOperation"
    (again,) = console.act("vm", "restart", key="op")["events"]
    assert again["id"] != event["id"]
    explained = console.ok("GET", "/api/operations/op/explain")
    assert explained["events"] == [again["id"]]
    assert {step["at"] for step in explained["steps"]} == {"2026-01-09T12:10:00Z"}
    repeated = console.act("vm", "restart", key="op")
    assert [shown["id"] for shown in repeated["events"]] == [again["id"]]
