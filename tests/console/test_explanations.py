from pathlib import Path

import pytest

from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.model import Scope
from fairwarning.store.store import Batch, Store
from tests.console.conftest import each_store
from tests.console.explanation_cases import CASES, Case, render
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.fleet import NOON

FOLDER = Path(__file__).parent / "explanations"


def path_of(case: Case) -> Path:
    """Return the file with the text of a case."""
    return FOLDER / f"{case.__name__.replace('_', '-')}.txt"


@pytest.mark.spec("O7")
@each_store
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_explanation(case: Case, store: Store, request: pytest.FixtureRequest) -> None:
    """Each life cycle is explained exactly as its file says, whatever the store."""
    text = render(case, store)
    if request.config.getoption("--rewrite-explanations", default=False):
        path_of(case).write_text(text, encoding="utf-8")
    assert text == path_of(case).read_text(encoding="utf-8")


def test_every_file_has_a_case() -> None:
    """No file is left over from a removed case."""
    assert {path.name for path in FOLDER.iterdir()} == {path_of(case).name for case in CASES}


@pytest.mark.spec("O7")
def test_unknown_ids_have_no_explanation(console: ConsoleHarness) -> None:
    """Unknown events, operations and machines get 404; so does a part of an id."""
    console.polling("vm")
    event = console.act("vm", "restart", key="op")["events"][0]["id"]
    for target, code in (
        ("events/20F7A0FF-0000-0000-0000-000000000000", "UnknownEvent"),
        (f"events/{event[:8]}", "UnknownEvent"),
        ("operations/o", "UnknownOperation"),
        ("machines/v", "UnknownMachine"),
    ):
        for path in (f"/api/{target}", f"/api/{target}/explain"):
            reply = console.api("GET", path)
            assert (reply.status, reply.error_code) == (404, code), path


@pytest.mark.spec("O7")
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


@pytest.mark.spec("O7", "E10")
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
