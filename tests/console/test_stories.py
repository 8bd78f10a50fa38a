from pathlib import Path

import pytest

from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.model import Scope
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch
from tests.console.telling import LIVES, Life, tell
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.fleet import NOON

FOLDER = Path(__file__).parent / "stories"


def path_of(life: Life) -> Path:
    """Where its text is."""
    return FOLDER / f"{life.__name__.replace('_', '-')}.txt"


@pytest.mark.spec("O7")
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_story(life: Life, request: pytest.FixtureRequest) -> None:
    """Each life cycle is explained as its text says, to the letter."""
    told = tell(life)
    if request.config.getoption("--rewrite-stories", default=False):
        path_of(life).write_text(told, encoding="utf-8")
    assert told == path_of(life).read_text(encoding="utf-8")


@pytest.mark.spec("O7")
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_a_story_is_the_same_from_a_file(life: Life, tmp_path: Path) -> None:
    """Whichever store keeps the journal."""
    store = SQLiteStore(tmp_path / "fleet.db", reserved_bytes=4096)
    assert tell(life, store) == path_of(life).read_text(encoding="utf-8")


def test_every_text_is_told() -> None:
    """No text is left over from a life cycle that is gone."""
    assert {path.name for path in FOLDER.iterdir()} == {path_of(life).name for life in LIVES}


@pytest.mark.spec("O7")
def test_the_unknown_has_no_story() -> None:
    """Events, operations and machines that never were; a part of an id is none."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        console.poll("vm")
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
def test_a_story_outlives_restarts_and_much_that_is_newer() -> None:
    """The same words after either; an id in lower case is the same id."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        console.poll("vm")
        event = console.act("vm", "restart", key="op")["events"][0]["id"]
        console.poll("vm")
        console.approve("vm", event)
        console.advance(100)
        before = console.ok("GET", f"/api/events/{event}/explain")
        operation = console.ok("GET", "/api/operations/op/explain")
        console.restart_service()
        facts = [Fact(FactType.CONFIGURED, why=str(n)) for n in range(6000)]
        lines = [JournalLine(NOON + 200, "x", (Scope, "vm"), fact) for fact in facts]
        console.run(console._store.commit(Batch(NOON + 200, lines=lines)))
        assert console.ok("GET", f"/api/events/{event}/explain") == before
        assert console.ok("GET", "/api/operations/op/explain") == operation
        assert console.ok("GET", f"/api/events/{event.lower()}/explain") == before
