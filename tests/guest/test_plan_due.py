"""What the agent does when time passes: lost approvals, and failed hooks of phase over."""

from datetime import datetime, timedelta

import pytest

from fairwarning.guest.agent.actions import AgentJournalEntry, RunHook
from fairwarning.guest.agent.config import HookSettings
from fairwarning.guest.agent.event_state import ApprovalResult
from fairwarning.guest.agent.plan import MOST_WAITING_EVENTS, AgentPlan
from fairwarning.guest.events import EventType
from fairwarning.guest.watch import Phase
from tests.guest.notices import (
    APPROVED,
    APPROVING,
    BACK,
    BEGUN,
    DONE,
    DRAIN,
    NOTE,
    NOW,
    OVER,
    RECOVERED,
    RECOVERING,
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


def seconds(number: float) -> datetime:
    """Return a time after the notice."""
    return NOW + timedelta(seconds=number)


@pytest.mark.spec("G5")
def test_an_approval_without_effect_is_sent_again() -> None:
    """After some seconds, also if the clock was moved back; not after the start."""
    agent_plan = plan(DRAIN)
    agent_plan.read(document(event()), NOW)
    agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    agent_plan.approved("A", NOW, ApprovalResult.ACCEPTED)
    assert agent_plan.due(seconds(4)) == []
    assert sends(agent_plan.due(seconds(5))) == ["A"]
    assert agent_plan.due(seconds(6)) == []
    assert sends(agent_plan.due(seconds(-3600))) == ["A"]
    agent_plan.read(document(event(started=True)), NOW)
    assert agent_plan.due(seconds(3600)) == []


@pytest.mark.spec("G5")
def test_a_refused_approval_is_sent_again_until_not_before() -> None:
    """IG7: one 400 may be a failure of the endpoint. The pause grows."""
    agent_plan = plan(DRAIN)
    agent_plan.read(document(event()), NOW)
    assert sends(agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)) == ["A"]
    sent = []
    for second in range(901):
        if sends(agent_plan.due(seconds(second))) or not second:
            sent.append(second)
            assert agent_plan.approved("A", seconds(second), ApprovalResult.REFUSED) == []
            assert agent_plan.known["A"].refused
    assert sent == [0, 2, 6, 14, 30, *range(62, 123, 60), *range(182, 890, 60)]
    accepted = agent_plan.approved("A", NOW, ApprovalResult.ACCEPTED)
    assert [entry.step for entry in entries(accepted)] == ["approved"]
    assert not agent_plan.known["A"].refused


@pytest.mark.spec("G5")
def test_an_approval_follows_the_end_of_an_outage_within_ten_seconds() -> None:
    """It may end shortly before NotBefore, however long it lasted."""
    agent_plan = plan(DRAIN)
    agent_plan.read(document(event()), NOW)
    agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    agent_plan.approved("A", NOW, ApprovalResult.FAILED)
    sent = []
    for second in range(901):
        if sends(agent_plan.due(seconds(second))):
            sent.append(second)
            agent_plan.approved("A", seconds(second), ApprovalResult.FAILED)
    assert sent == [2, 6, *range(14, 901, 10)]


@pytest.mark.spec("G5")
@pytest.mark.parametrize("result", ApprovalResult)
def test_an_answer_of_an_event_that_came_back_counts_for_nothing(result: ApprovalResult) -> None:
    """IG1: it was sent for the machine as it was prepared before, and is no more."""
    agent_plan = plan(DRAIN)
    agent_plan.read(document(event()), NOW)
    agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    agent_plan.read(document(), NOW)
    agent_plan.read(document(event()), NOW)
    assert agent_plan.approved("A", NOW, result) == []
    assert sends(agent_plan.due(seconds(60))) == []
    assert sends(agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)) == ["A"]


@pytest.mark.spec("G5", "G6")
def test_nothing_is_approved_before_a_document() -> None:
    """IG3: the resources may have changed while the agent was down."""
    agent_plan = restored(SEEN, BEGUN, DONE, APPROVING, APPROVED)
    assert agent_plan.due(NOW) == []
    agent_plan.resume(document(event()), NOW)
    assert sends(agent_plan.due(NOW)) == ["A"]


def recovering(*hooks_: HookSettings) -> AgentPlan:
    """Return a plan whose event is over and whose hook `back` runs."""
    agent_plan = plan(*hooks_)
    agent_plan.read(document(event(started=True)), NOW)
    assert runs(agent_plan.read(document(), NOW)) == ["back"]
    return agent_plan


@pytest.mark.spec("G4")
@pytest.mark.parametrize("required", [False, True])
def test_a_failed_hook_of_phase_over_runs_again_until_it_succeeds(required: bool) -> None:
    """IG1: a machine does not stay half undone. The pause grows, the journal does not."""
    agent_plan = recovering(hook("back", Phase.OVER, required=required))
    now, pauses = NOW, []
    failed = agent_plan.done("A", Phase.OVER, "back", "exit code 1", now)
    assert [entry.failed for entry in entries(failed)] == ["exit code 1"]
    for _ in range(8):
        assert agent_plan.hooks_to_retry == 1
        failed_at = now
        while not (actions := agent_plan.due(now)):
            now += timedelta(seconds=1)
        assert runs(actions) == ["back"]
        assert entries(actions) == []
        pauses.append((now - failed_at).total_seconds())
        assert agent_plan.due(now) == []
        assert agent_plan.hooks_to_retry == 1
        assert agent_plan.done("A", Phase.OVER, "back", "exit code 1", now) == []
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300]
    agent_plan.due(now + timedelta(seconds=300))
    done = agent_plan.done("A", Phase.OVER, "back", "", now)
    assert [entry.step for entry in entries(done)] == ["done", "forgotten"]
    assert (agent_plan.known, agent_plan.hooks_to_retry) == ({}, 0)


@pytest.mark.spec("G4", "G6")
@pytest.mark.parametrize("again", [(), (AgentJournalEntry("begun", "A", Phase.OVER, "back"),)])
def test_a_failed_hook_of_phase_over_runs_again_after_a_restart(
    again: tuple[AgentJournalEntry, ...],
) -> None:
    """At once, even if the endpoint's first responses are empty; it is counted before."""
    failed = AgentJournalEntry("done", "A", Phase.OVER, "back", "exit code 1")
    for is_empty in (False, True):
        agent_plan = restored(SEEN, OVER, RECOVERING, failed, *again)
        assert agent_plan.hooks_to_retry == 1
        first = agent_plan.due(NOW) if is_empty else agent_plan.resume(document(), NOW)
        assert runs(first) == ["back"]
        agent_plan.done("A", Phase.OVER, "back", "", NOW)
        assert agent_plan.known == {}


@pytest.mark.spec("G4")
def test_other_hooks_of_phase_over_do_not_wait_for_a_failed_one() -> None:
    """Each runs until it has succeeded, and not again."""
    agent_plan = plan(BACK, hook("tell", Phase.OVER))
    agent_plan.read(document(event(started=True)), NOW)
    assert runs(agent_plan.read(document(), NOW)) == ["back", "tell"]
    agent_plan.done("A", Phase.OVER, "back", "exit code 1", NOW)
    assert runs(agent_plan.due(seconds(5))) == ["back"]
    agent_plan.done("A", Phase.OVER, "tell", "", NOW)
    agent_plan.done("A", Phase.OVER, "back", "", NOW)
    assert agent_plan.known == {}


@pytest.mark.spec("G4")
def test_a_new_event_does_not_wait_for_a_failed_hook_of_phase_over() -> None:
    """Its hooks begin at once, and the old hook, which would undo them, waits for its end."""
    agent_plan = recovering(DRAIN, BACK)
    agent_plan.done("A", Phase.OVER, "back", "exit code 1", NOW)
    assert runs(agent_plan.read(document(event("B")), NOW)) == ["drain"]
    assert sends(agent_plan.done("B", Phase.SCHEDULED, "drain", "", NOW)) == ["B"]
    assert agent_plan.due(seconds(4)) == []
    assert runs(agent_plan.due(seconds(60))) == []
    assert runs(agent_plan.read(document(), seconds(60))) == ["back"]
    assert agent_plan.due(seconds(60)) == []
    after = agent_plan.done("B", Phase.OVER, "back", "", seconds(60))
    assert [action.event.id for action in after if isinstance(action, RunHook)] == ["A"]


@pytest.mark.spec("G4")
def test_events_without_preparation_do_not_delay_a_failed_hook_of_phase_over() -> None:
    """There is nothing that it could undo: no hook that the approval waits for."""
    freezes = hook("freeze", Phase.SCHEDULED, EventType.FREEZE)
    agent_plan = recovering(freezes, BACK, NOTE)
    agent_plan.done("A", Phase.OVER, "back", "exit code 1", NOW)
    assert runs(agent_plan.read(document(event("B")), NOW)) == ["note"]
    assert runs(agent_plan.due(seconds(5))) == []  # nor do they run side by side
    assert runs(agent_plan.done("B", Phase.SCHEDULED, "note", "", seconds(5))) == ["back"]


@pytest.mark.spec("G4")
def test_an_id_that_reappears_does_not_wait_for_a_failed_hook_of_phase_over() -> None:
    """The hook will run for the new event, so it is not tried again for the old one."""
    agent_plan = recovering(DRAIN, BACK)
    agent_plan.done("A", Phase.OVER, "back", "exit code 1", NOW)
    assert runs(agent_plan.read(document(event()), NOW)) == ["drain"]
    assert agent_plan.hooks_to_retry == 0


@pytest.mark.spec("G4", "G6")
def test_a_failed_hook_of_phase_over_that_was_removed_from_the_configuration() -> None:
    """It is not waited for."""
    failed = AgentJournalEntry("done", "A", Phase.OVER, "old", "exit code 1")
    agent_plan = restored(SEEN, OVER, RECOVERED, failed)
    assert agent_plan.hooks_to_retry == 0
    agent_plan.resume(document(), NOW)
    assert agent_plan.known == {}


def failing(count: int) -> AgentPlan:
    """Return a plan with so many events whose hook `back` has failed."""
    agent_plan = plan(BACK)
    names = [f"E{number}" for number in range(count)]
    agent_plan.read(document(*(event(name, started=True) for name in names)), NOW)
    assert len(runs(agent_plan.read(document(), NOW))) == count
    for name in names:
        agent_plan.done(name, Phase.OVER, "back", "exit code 1", NOW)
    return agent_plan


@pytest.mark.spec("G4")
def test_a_failed_hook_of_phase_over_does_not_run_beside_itself() -> None:
    """It is tried for one event after the other, however many wait."""
    agent_plan = failing(3)
    actions = agent_plan.due(seconds(5))
    for name in ("E0", "E1", "E2"):
        (run,) = [action for action in actions if isinstance(action, RunHook)]
        assert run.event.id == name
        assert agent_plan.due(seconds(5)) == []
        actions = agent_plan.done(name, Phase.OVER, "back", "", seconds(5))
    assert agent_plan.known == {}


@pytest.mark.spec("G4")
def test_a_limited_number_of_events_waits_for_a_hook_that_always_fails() -> None:
    """The oldest are given up, so that its cost does not grow without end."""
    agent_plan = failing(MOST_WAITING_EVENTS + 2)
    (first, second) = entries(agent_plan.due(NOW))
    assert [(entry.step, entry.event) for entry in (first, second)] == [
        ("forgotten", "E0"),
        ("forgotten", "E1"),
    ]
    assert "too many events" in first.failed
    assert agent_plan.hooks_to_retry == MOST_WAITING_EVENTS
