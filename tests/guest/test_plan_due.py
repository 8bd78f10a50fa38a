"""What the agent does when time passes: lost approvals, and failed hooks of phase over."""

from datetime import timedelta

import pytest

from fairwarning.guest.agent import plan
from fairwarning.guest.agent.config import HookSettings
from fairwarning.guest.agent.event_state import NO_TIME_LEFT, OUT_OF_TIME, ApprovalResult
from fairwarning.guest.events import EventType, Phase
from tests.guest.notices import BACK, DRAIN, MARGIN, NOTE, NOTICE, NOW, event, hook
from tests.guest.planned_agent import PlannedAgent, after, drained, journal

# --- Approvals ------------------------------------------------------------------------------------


@pytest.mark.spec("G5")
def test_an_approval_without_effect_is_sent_again() -> None:
    """After some seconds, also if the clock was moved back; not after the start."""
    agent = drained(DRAIN)
    agent.answered(ApprovalResult.ACCEPTED)
    assert agent.waits(after(4)) == []
    assert agent.waits(after(5)) == ["approve A"]
    assert agent.waits(after(6)) == []
    assert agent.waits(after(-3600)) == ["approve A"]
    agent.reads(event(started=True))
    assert agent.waits(after(3600)) == []


def seconds_of_approvals(agent: PlannedAgent, result: ApprovalResult) -> list[int]:
    """Return when the approval is sent again until NotBefore, if this is always the answer."""
    agent.answered(result)
    assert agent.actions == []
    sent = []
    for second in range(901):
        if agent.waits(after(second)):
            sent.append(second)
            agent.answered(result, after(second))
            assert agent.actions == []
    return sent


@pytest.mark.spec("G5")
def test_a_refused_approval_is_sent_again_until_not_before() -> None:
    """IG7: one 400 may be a failure of the endpoint. The pause grows."""
    agent = drained(DRAIN)
    sent = seconds_of_approvals(agent, ApprovalResult.REFUSED)
    assert sent == [2, 6, 14, 30, *range(62, 123, 60), *range(182, 890, 60)]
    assert agent.plan.known["A"].refused
    agent.answered(ApprovalResult.ACCEPTED)
    assert agent.steps == ["approved"]
    assert not agent.plan.known["A"].refused


@pytest.mark.spec("G5")
def test_an_approval_follows_the_end_of_an_outage_within_ten_seconds() -> None:
    """It may end shortly before NotBefore, however long it lasted."""
    sent = seconds_of_approvals(drained(DRAIN), ApprovalResult.FAILED)
    assert sent == [2, 6, *range(14, 901, 10)]


@pytest.mark.spec("G5")
@pytest.mark.parametrize("result", ApprovalResult)
def test_an_answer_of_an_event_that_came_back_counts_for_nothing(result: ApprovalResult) -> None:
    """IG1: it was sent for the machine as it was prepared before, and is no more."""
    agent = drained(DRAIN)
    agent.reads()
    agent.reads(event())
    agent.answered(result)
    assert agent.actions == []
    assert agent.waits(after(60)) == []
    assert agent.ends("drain") == ["approve A"]


@pytest.mark.spec("G5", "G6")
def test_nothing_is_approved_before_a_document() -> None:
    """IG3: the resources may have changed while the agent was down."""
    lines = journal("seen", "begun drain", "done drain", "approving", "approved")
    agent = PlannedAgent(journal=lines)
    assert agent.waits() == []
    agent.starts(event())
    assert agent.waits() == ["approve A"]


# --- A wrong clock of the endpoint ----------------------------------------------------------------


@pytest.mark.spec("G4")
@pytest.mark.parametrize("is_shortened", [False, True])
def test_a_hook_that_a_wrong_clock_cut_short_runs_again(is_shortened: bool) -> None:
    """IG4: an hour ahead for a moment, whether it was so at the hook's start or at a change."""
    agent = PlannedAgent(DRAIN)
    agent.reads(event(), now=NOW if is_shortened else after(3600))
    if is_shortened:
        moved = event(notice=timedelta(minutes=14))
        assert agent.reads(moved, now=after(3600)) == ["shorten drain"]
    agent.ends("drain", OUT_OF_TIME, now=after(4))
    assert agent.waits(after(3605)) == []
    assert agent.waits(after(6)) == ["run drain"]
    assert agent.runs[0].deadline == after(6 + 300)
    assert agent.waits(after(8)) == []
    assert agent.ends("drain", now=after(60)) == ["approve A"]


@pytest.mark.spec("G4")
@pytest.mark.parametrize(("left", "again"), [(9, []), (10, ["run drain"])])
def test_a_hook_runs_again_with_clearly_more_time_only(left: int, again: list[str]) -> None:
    """Twice as much as it had, so that it is not cut short for ever."""
    agent = PlannedAgent(DRAIN)
    agent.reads(event(), now=after(3600))
    agent.ends("drain", OUT_OF_TIME, now=after(4))
    now = NOW + NOTICE - MARGIN - timedelta(seconds=left)
    assert agent.waits(now) == again
    if again:
        agent.ends("drain", OUT_OF_TIME, now=now + timedelta(seconds=left))
        assert agent.waits(now + timedelta(seconds=left)) == []


@pytest.mark.spec("G4")
@pytest.mark.parametrize("failed", [NO_TIME_LEFT, OUT_OF_TIME])
def test_a_hook_that_had_its_whole_time_does_not_run_again(failed: str) -> None:
    """A function that hung was in its way, or it takes too long."""
    agent = PlannedAgent(hook("drain", timeout=timedelta(seconds=10)))
    agent.reads(event())
    agent.ends("drain", failed, now=after(10))
    assert agent.waits(after(12)) == []


# --- Failed hooks of phase over -------------------------------------------------------------------


def recovering(*hooks: HookSettings) -> PlannedAgent:
    """Return an agent whose event is over and whose hook `back` runs."""
    agent = PlannedAgent(*hooks)
    agent.reads(event(started=True))
    assert agent.reads() == ["run back"]
    assert not agent.runs[0].cancelled
    return agent


def failed(*hooks: HookSettings) -> PlannedAgent:
    """Return an agent whose event is over and whose hook `back` has failed."""
    agent = recovering(*hooks)
    agent.ends("back", "exit code 1")
    return agent


@pytest.mark.spec("G4")
@pytest.mark.parametrize("required", [False, True])
def test_a_failed_hook_of_phase_over_runs_again_until_it_succeeds(required: bool) -> None:
    """IG1: a machine does not stay half undone. The pause grows, the journal does not."""
    agent = failed(hook("back", Phase.OVER, required=required))
    assert [entry.failed for entry in agent.notes] == ["exit code 1"]
    now, pauses = NOW, []
    for _ in range(8):
        assert agent.plan.hooks_to_retry == 1
        failed_at = now
        while not agent.waits(now):
            now += timedelta(seconds=1)
        assert len(agent.actions) == len(agent.runs) == 1
        pauses.append((now - failed_at).total_seconds())
        assert agent.waits(now) == []
        assert agent.plan.hooks_to_retry == 1
        agent.ends("back", "exit code 1", now=now)
        assert agent.actions == []
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300]
    agent.waits(now + timedelta(seconds=300))
    agent.ends("back", now=now)
    assert agent.steps == ["done", "forgotten"]
    assert (agent.plan.known, agent.plan.hooks_to_retry) == ({}, 0)


@pytest.mark.spec("G4", "G6")
@pytest.mark.parametrize("again", [[], ["begun back"]])
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_failed_hook_of_phase_over_runs_again_after_a_restart(
    again: list[str], is_empty: bool
) -> None:
    """At once, even if the endpoint's first responses are empty; it is counted before."""
    lines = journal("seen", "over", "begun back", "done back: exit code 1", *again)
    agent = PlannedAgent(journal=lines)
    assert agent.plan.hooks_to_retry == 1
    assert (agent.waits() if is_empty else agent.starts()) == ["run back"]
    agent.ends("back")
    assert agent.plan.known == {}
    assert agent.ends("back") == []


@pytest.mark.spec("G4")
def test_events_without_preparation_do_not_delay_a_failed_hook_of_phase_over() -> None:
    """There is nothing that it could undo: no hook that the approval waits for."""
    freezes = hook("freeze", Phase.SCHEDULED, EventType.FREEZE)
    agent = failed(freezes, BACK, NOTE)
    agent.reads(event("B"))
    assert [run.hook for run in agent.runs] == [NOTE]
    agent.waits(after(5))
    assert agent.runs == []  # nor do they run side by side
    assert agent.ends("note", of="B", now=after(5)) == ["run back"]


@pytest.mark.spec("G4")
def test_an_id_that_reappears_does_not_wait_for_a_failed_hook_of_phase_over() -> None:
    """The hook will run for the new event, so it is not tried again for the old one."""
    agent = failed(DRAIN, BACK)
    assert agent.reads(event()) == ["run drain"]
    assert agent.plan.hooks_to_retry == 0


@pytest.mark.spec("G4", "G6")
def test_a_failed_hook_of_phase_over_that_was_removed_from_the_configuration() -> None:
    """It is not waited for."""
    lines = journal("seen", "over", "done back", "done old: exit code 1")
    agent = PlannedAgent(journal=lines)
    assert agent.plan.hooks_to_retry == 0
    agent.starts()
    assert agent.plan.known == {}


def failing(count: int) -> PlannedAgent:
    """Return an agent with so many events whose hook `back` has failed."""
    agent = PlannedAgent(BACK)
    names = [f"E{number}" for number in range(count)]
    agent.reads(*(event(name, started=True) for name in names))
    assert agent.reads() == ["run back"] * count
    for name in names:
        agent.plan.done(name, Phase.OVER, "back", "exit code 1", NOW)
    return agent


@pytest.mark.spec("G4")
def test_a_limited_number_of_events_waits_for_a_hook_that_always_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest are given up, so that its cost does not grow without end."""
    monkeypatch.setattr(plan, "MOST_WAITING_EVENTS", 5)
    agent = failing(7)
    agent.waits()
    notes = [(note.step, note.event) for note in agent.notes]
    assert notes == [("forgotten", "E0"), ("forgotten", "E1")]
    assert "too many events" in agent.notes[0].failed
    assert agent.plan.hooks_to_retry == 5
