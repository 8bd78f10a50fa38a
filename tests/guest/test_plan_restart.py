"""The agent's decisions after a restart of the agent or the machine (G6)."""

import pytest

from fairwarning.guest.agent.actions import (
    AgentJournalEntry,
    RunHook,
    SignalReady,
    StopHook,
    WriteNote,
)
from fairwarning.guest.events import Event
from fairwarning.guest.watch import Phase
from tests.guest.notices import (
    ALL,
    APPROVED,
    APPROVING,
    BEGUN,
    DONE,
    FOLDER,
    ME,
    NOTE_DONE,
    NOTED,
    NOW,
    OVER,
    RECOVERED,
    RECOVERING,
    SEEN,
    THREE,
    document,
    entries,
    event,
    hook,
    restored,
    runs,
    sends,
)

pytestmark = pytest.mark.spec("G6")


@pytest.mark.parametrize(
    ("lines", "expected", "approved"),
    [
        ([SEEN], ["drain", "note"], False),
        ([SEEN, BEGUN], ["drain", "note"], False),
        ([SEEN, BEGUN, NOTED], ["drain", "note"], False),
        ([SEEN, BEGUN, NOTED, NOTE_DONE], ["drain"], False),
        ([SEEN, BEGUN, NOTED, NOTE_DONE, DONE], [], True),
        ([SEEN, BEGUN, NOTED, NOTE_DONE, DONE, APPROVING], [], True),
        ([SEEN, BEGUN, NOTED, NOTE_DONE, DONE, APPROVING, APPROVED], [], False),
    ],
)
def test_a_restart_during_preparation(
    lines: list[AgentJournalEntry], expected: list[str], approved: bool
) -> None:
    """Interrupted hooks run again, finished ones do not, and the approval is sent."""
    after = restored(*lines).resume(document(event()), NOW)
    assert runs(after) == expected
    assert set(sends(after)) == ({"A"} if approved else set())


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([SEEN, BEGUN], ["back"]),
        ([SEEN, BEGUN, NOTED, NOTE_DONE, DONE, APPROVING, APPROVED], ["back"]),
        ([SEEN, BEGUN, DONE, OVER], ["back"]),
        ([SEEN, BEGUN, OVER], ["back"]),
        ([SEEN, OVER, RECOVERING], ["back"]),
        ([SEEN, OVER, RECOVERING, RECOVERED], []),
    ],
)
def test_a_restart_after_the_event(lines: list[AgentJournalEntry], expected: list[str]) -> None:
    """The reboot may have been the event: no preparation, and recovery runs once."""
    agent_plan = restored(*lines)
    after = agent_plan.resume(document(), NOW)
    assert runs(after) == expected
    assert all(action.event.id == "A" for action in after if isinstance(action, RunHook))
    agent_plan.done("A", Phase.OVER, "back", "", NOW)
    assert agent_plan.known == {}


def test_a_restart_after_the_event_started() -> None:
    """It is too late to prepare: the interrupted hook has failed."""
    after = restored(SEEN, BEGUN).resume(document(event(started=True)), NOW)
    assert runs(after) == ["flush"]
    assert AgentJournalEntry("done", "A", Phase.SCHEDULED, "drain", "was interrupted") in entries(
        after
    )
    assert sends(after) == []


def test_a_started_hook_does_not_rerun_after_the_end() -> None:
    """A running one would be stopped, too; recovery does not wait for it."""
    started = AgentJournalEntry("seen", "A", seen=event(started=True))
    flushing = AgentJournalEntry("begun", "A", Phase.STARTED, "flush")
    for lines in ((started, flushing), (started, flushing, AgentJournalEntry("over", "A"))):
        agent_plan = restored(*lines)
        after = agent_plan.resume(document(), NOW)
        stops = [action.hook for action in after if isinstance(action, StopHook)]
        assert runs(after) == ["back"] or stops == ["flush"], lines


def test_a_restart_signals_readiness_again() -> None:
    """Peers that query the restarted agent must see it."""
    shared = event("A", *THREE)
    lines = [AgentJournalEntry("seen", "A", seen=shared), BEGUN, NOTED, NOTE_DONE, DONE]
    after = restored(*lines, group=FOLDER).resume(document(shared), NOW)
    assert after == [SignalReady(shared)]


@pytest.mark.parametrize("listed", [True, False])
def test_an_event_of_another_machine_in_the_journal(listed: bool) -> None:
    """An earlier version could track it: it is forgotten, and nothing runs for it."""
    stranger = event("B", "vm-2")
    lines = [AgentJournalEntry("seen", "B", seen=stranger), AgentJournalEntry("over", "B")]
    agent_plan = restored(*lines[: 1 if listed else 2])
    assert agent_plan.known == {}
    after = agent_plan.resume(document(*[stranger] if listed else []), NOW)
    assert after == [WriteNote(AgentJournalEntry("forgotten", "B"))]


@pytest.mark.spec("G5")
@pytest.mark.parametrize("resources", [("vm-2",), (ME, "vm-2")])
def test_no_approval_after_a_restart_for_other_machines(resources: tuple[str, ...]) -> None:
    """IG3: the resources of the event changed while the agent was down."""
    agent_plan = restored(SEEN, BEGUN, DONE, APPROVING)
    assert sends(agent_plan.resume(document(event("A", *resources)), NOW)) == []


@pytest.mark.parametrize("lines", [[APPROVING], [APPROVING, APPROVED]])
def test_an_approval_waits_for_a_hook_that_was_added(lines: list[AgentJournalEntry]) -> None:
    """IG1: while the agent was down."""
    agent_plan = restored(SEEN, BEGUN, DONE, *lines, hooks=(*ALL, hook("save")))
    assert "save" in runs(started := agent_plan.resume(document(event()), NOW))
    assert sends([*started, *agent_plan.due(NOW)]) == []
    done = agent_plan.done("A", Phase.SCHEDULED, "save", "", NOW)
    assert sends([*done, *agent_plan.due(NOW)]) == ["A"]


@pytest.mark.parametrize(
    ("lines", "listed", "expected"),
    [
        # The first line was corrupt; the document lists the event again.
        ([BEGUN, DONE, AgentJournalEntry("what?", "A")], [event()], ["drain", "note"]),
        # Lines of an event may remain until compaction.
        ([SEEN, OVER, AgentJournalEntry("forgotten", "A")], [], []),
    ],
)
def test_lines_that_are_ignored(
    lines: list[AgentJournalEntry], listed: list[Event], expected: list[str]
) -> None:
    """Those without the line `seen`, and those of a forgotten event."""
    agent_plan = restored(*lines)
    assert agent_plan.known == {}
    assert runs(agent_plan.resume(document(*listed), NOW)) == expected
