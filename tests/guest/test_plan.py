"""The agent's decisions, in virtual time."""

from datetime import timedelta

import pytest

from fairwarning.guest.agent.actions import (
    Action,
    AgentJournalEntry,
    RunHook,
    SendApproval,
    ShortenHook,
    StopHook,
    WriteNote,
)
from fairwarning.guest.agent.config import ApprovalPolicy
from fairwarning.guest.agent.event_state import NO_TIME_LEFT, OUT_OF_TIME
from fairwarning.guest.agent.plan import LEAST_TIME
from fairwarning.guest.events import EventSource, EventType
from fairwarning.guest.watch import Phase
from tests.guest.notices import (
    BACK,
    BEGUN,
    DRAIN,
    FOLDER,
    MARGIN,
    ME,
    NOTE,
    NOTE_DONE,
    NOTED,
    NOW,
    SEEN,
    document,
    entries,
    event,
    hook,
    plan,
    restored,
    runs,
    sends,
)


@pytest.mark.spec("G6")
def test_every_step_is_journaled_before_it_is_taken() -> None:
    """A hook start and an approval come right after their journal entries."""
    agent_plan = plan(DRAIN)
    begun = agent_plan.read(document(event()), NOW)
    done = agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    assert [type(action) for action in begun] == [WriteNote, WriteNote, RunHook]
    assert [entry.step for entry in entries(begun)] == ["seen", "begun"]
    assert [type(action) for action in done] == [WriteNote, WriteNote, SendApproval]
    assert [entry.step for entry in entries(done)] == ["done", "approving"]


@pytest.mark.spec("G5")
@pytest.mark.parametrize(
    ("rule", "source", "at_first", "when_done"),
    [
        (ApprovalPolicy.WHEN_DONE, EventSource.PLATFORM, False, True),
        (ApprovalPolicy.AT_ONCE, EventSource.PLATFORM, True, False),
        (ApprovalPolicy.NEVER, EventSource.USER, False, False),
        (ApprovalPolicy.USER_ONLY, EventSource.USER, False, True),
        (ApprovalPolicy.USER_ONLY, EventSource.PLATFORM, False, False),
    ],
)
def test_approval_policies(
    rule: ApprovalPolicy, source: EventSource, at_first: bool, when_done: bool
) -> None:
    """Hooks run under every policy."""
    agent_plan = plan(approve=rule)
    first = agent_plan.read(document(event(source=source)), NOW)
    assert runs(first) == ["drain", "note"]
    assert bool(sends(first)) == at_first
    assert bool(sends(agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW))) == when_done


@pytest.mark.spec("G4")
def test_hooks_are_selected_by_type_and_source() -> None:
    """Other hooks do not run."""
    agent_plan = plan(
        hook("freezes", Phase.SCHEDULED, EventType.FREEZE),
        hook("users", source="User"),
        hook("any"),
    )
    assert runs(agent_plan.read(document(event("A", type=EventType.FREEZE)), NOW)) == [
        "freezes",
        "any",
    ]
    two = document(event("A", type=EventType.FREEZE), event("B", source=EventSource.USER))
    assert runs(agent_plan.read(two, NOW)) == ["users", "any"]


# --- Relevance ------------------------------------------------------------------------------------


@pytest.mark.spec("G5")
def test_an_event_of_another_machine_is_ignored() -> None:
    """No hook, no approval, no journal entry (IG3)."""
    agent_plan = plan()
    assert agent_plan.read(document(event("A", "vm-2")), NOW) == []
    assert agent_plan.read(document(), NOW) == []


@pytest.mark.spec("G4")
def test_recovery_after_the_event_drops_this_machine() -> None:
    """IG1: a drained machine must be recovered."""
    agent_plan = plan(DRAIN, BACK, group=FOLDER)
    agent_plan.read(document(event("A", ME, "vm-2")), NOW)
    agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    after = agent_plan.read(document(event("A", "vm-2")), NOW)
    after += agent_plan.read(document(), NOW)
    assert runs(after) == ["back"]


# --- Time -----------------------------------------------------------------------------------------


def time_limits(actions: list[Action]) -> list[timedelta]:
    """Return the time limits of the hooks that start."""
    return [action.deadline - NOW for action in actions if isinstance(action, RunHook)]


@pytest.mark.spec("G4")
@pytest.mark.parametrize("seconds", [-3600, -1, 0, 2, 9])
def test_a_hook_gets_a_minimum_of_time(seconds: int) -> None:
    """Close to NotBefore or after it, by whatever clock, it begins; its own timeout holds."""
    late = document(event(notice=timedelta(seconds=seconds)))
    long, short = hook("long"), hook("short", timeout=timedelta(seconds=1))
    assert time_limits(plan(long, short).read(late, NOW)) == [LEAST_TIME, timedelta(seconds=1)]


@pytest.mark.spec("G4")
def test_a_hook_that_never_began_runs_when_not_before_moves_later() -> None:
    """It counts like any other then; a hook that ran and failed does not run again."""
    soon, later = event(notice=timedelta(seconds=1)), event(notice=timedelta(minutes=5))
    agent_plan = plan(DRAIN, NOTE)
    agent_plan.read(document(soon), NOW)
    agent_plan.done("A", Phase.SCHEDULED, "drain", NO_TIME_LEFT, NOW)
    agent_plan.done("A", Phase.SCHEDULED, "note", "exit code 1", NOW)
    other = event("A", ME, "vm-2", notice=timedelta(seconds=1))
    assert runs(agent_plan.read(document(other), NOW)) == []
    assert runs(agent_plan.read(document(later), NOW)) == ["drain"]
    assert sends(agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)) == ["A"]


@pytest.mark.spec("G4")
@pytest.mark.parametrize(("timeout", "again"), [(300, ["drain"]), (5, [])])
def test_a_hook_that_was_cut_short_runs_when_not_before_moves_later(
    timeout: int, again: list[str]
) -> None:
    """NotBefore left it too little time; a hook that used up its own timeout does not run again."""
    now = NOW + timedelta(seconds=5)
    agent_plan = plan(hook("drain", timeout=timedelta(seconds=timeout)))
    agent_plan.read(document(event(notice=timedelta(seconds=1))), NOW)
    agent_plan.done("A", Phase.SCHEDULED, "drain", f"{OUT_OF_TIME}: 3 pods left", now)
    assert runs(agent_plan.read(document(event()), now)) == again


@pytest.mark.spec("G4", "G6")
@pytest.mark.parametrize("failed", [NO_TIME_LEFT, f"{NO_TIME_LEFT}: {OUT_OF_TIME}"])
def test_a_hook_without_time_is_remembered(failed: str) -> None:
    """The agent restarts before NotBefore moves."""
    late = AgentJournalEntry("done", "A", Phase.SCHEDULED, "drain", failed)
    after = restored(SEEN, NOTED, NOTE_DONE, BEGUN, late).resume(document(event()), NOW)
    assert runs(after) == ["drain"]


@pytest.mark.spec("G6")
def test_an_interrupted_hook_that_moved_to_another_phase() -> None:
    """It does not run in the phase in which it was configured before."""
    begun = AgentJournalEntry("begun", "A", Phase.SCHEDULED, "flush")
    assert runs(restored(SEEN, begun).resume(document(event()), NOW)) == ["drain", "note"]


@pytest.mark.spec("G4")
def test_a_notice_that_gets_shorter_shortens_its_hooks() -> None:
    """Running hooks get the new deadline, but the minimum of time; finished ones do not."""
    agent_plan = plan(DRAIN, NOTE, BACK)
    agent_plan.read(document(event()), NOW)
    agent_plan.done("A", Phase.SCHEDULED, "note", "", NOW)
    soon = event(notice=timedelta(minutes=1))
    changed = agent_plan.read(document(soon), NOW)
    assert [action for action in changed if isinstance(action, ShortenHook)] == [
        ShortenHook("A", Phase.SCHEDULED, "drain", NOW + timedelta(minutes=1) - MARGIN)
    ]
    assert [entry.seen for entry in entries(changed)] == [soon]
    assert runs(changed) == []
    past = document(event(notice=timedelta(minutes=-1)))
    (shortened,) = [
        action for action in agent_plan.read(past, NOW) if isinstance(action, ShortenHook)
    ]
    assert shortened.deadline == NOW + LEAST_TIME


@pytest.mark.spec("G4")
def test_an_event_that_started_without_notice() -> None:
    """There is nothing to prepare or approve, but there is recovery."""
    agent_plan = plan()
    sudden = agent_plan.read(document(event(started=True)), NOW)
    assert runs(sudden) == ["flush"]
    assert sends(sudden) == []
    agent_plan.done("A", Phase.STARTED, "flush", "", NOW)
    (run,) = [action for action in agent_plan.read(document(), NOW) if isinstance(action, RunHook)]
    assert (run.hook, run.cancelled) == (BACK, False)


@pytest.mark.spec("G4")
def test_a_cancelled_event_stops_preparation_then_recovers() -> None:
    """Recovery never runs together with preparation."""
    agent_plan = plan(DRAIN, BACK)
    agent_plan.read(document(event()), NOW)
    cancelled = agent_plan.read(document(), NOW)
    assert cancelled == [
        WriteNote(AgentJournalEntry("over", "A", cancelled=True)),
        StopHook("A", Phase.SCHEDULED, "drain"),
    ]
    last = agent_plan.done("A", Phase.SCHEDULED, "drain", "was stopped", NOW)
    (run,) = [action for action in last if isinstance(action, RunHook)]
    assert (run.hook, run.cancelled) == (BACK, True)
    assert sends(last) == []


@pytest.mark.spec("G6")
def test_a_reappearing_id_is_a_new_event() -> None:
    """It begins after recovery of the old event, whose results do not count for it."""
    agent_plan = plan(DRAIN, BACK)
    agent_plan.read(document(event()), NOW)
    agent_plan.read(document(), NOW)
    assert runs(agent_plan.read(document(event()), NOW)) == []
    assert runs(agent_plan.done("A", Phase.SCHEDULED, "drain", "was stopped", NOW)) == ["back"]
    assert runs(agent_plan.done("A", Phase.OVER, "back", "", NOW)) == ["drain"]
    assert sends(agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)) == ["A"]
