"""The agent's decisions, in virtual time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fairwarning.guest.agent.actions import ShortenHook
from fairwarning.guest.agent.config import ApprovalPolicy
from fairwarning.guest.agent.event_state import NO_TIME_LEFT, OUT_OF_TIME, ApprovalResult
from fairwarning.guest.agent.plan import LEAST_TIME
from fairwarning.guest.events import Event, EventSource, EventType, Phase
from tests.guest.notices import (
    BACK,
    DRAIN,
    FOLDER,
    MARGIN,
    ME,
    NOTE,
    NOTICE,
    NOW,
    THREE,
    event,
    hook,
    members,
)
from tests.guest.planned_agent import PlannedAgent, after, drained, journal


@pytest.mark.spec("G4")
def test_hooks_are_selected_by_type_and_source() -> None:
    """Other hooks do not run."""
    freezes = hook("freezes", Phase.SCHEDULED, EventType.FREEZE)
    agent = PlannedAgent(freezes, hook("users", source="User"), hook("any"))
    freeze = event("A", type=EventType.FREEZE)
    assert agent.reads(freeze) == ["run freezes", "run any"]
    assert agent.reads(freeze, event("B", source=EventSource.USER)) == ["run users", "run any"]


# --- Time -----------------------------------------------------------------------------------------


@pytest.mark.spec("G4")
@pytest.mark.parametrize("seconds", [-3600, -1, 0, 2, 9])
def test_a_hook_gets_a_minimum_of_time(seconds: int) -> None:
    """Close to NotBefore or after it, by whatever clock, it begins; its own timeout holds."""
    agent = PlannedAgent(hook("long"), hook("short", timeout=timedelta(seconds=1)))
    agent.reads(event(notice=timedelta(seconds=seconds)))
    limits = [run.deadline - NOW for run in agent.runs]
    assert limits == [LEAST_TIME, timedelta(seconds=1)]


@pytest.mark.spec("G4")
@pytest.mark.parametrize(("timeout", "again"), [(300, ["run drain"]), (5, [])])
def test_a_hook_that_was_cut_short_runs_when_not_before_moves_later(
    timeout: int, again: list[str]
) -> None:
    """NotBefore left it too little time; a hook that used up its own timeout does not run again."""
    agent = PlannedAgent(hook("drain", timeout=timedelta(seconds=timeout)))
    agent.reads(event(notice=timedelta(seconds=1)))
    agent.ends("drain", f"{OUT_OF_TIME}: 3 pods left", now=after(5))
    assert agent.reads(event("A", ME, "vm-2", notice=timedelta(seconds=1)), now=after(5)) == []
    assert agent.reads(event(), now=after(5)) == again


@pytest.mark.spec("G4")
def test_a_notice_that_gets_shorter_shortens_its_hooks() -> None:
    """Running hooks get the new deadline, but the minimum of time; finished ones do not."""
    agent = PlannedAgent(DRAIN, NOTE, BACK)
    agent.reads(event())
    agent.ends("note")
    soon = event(notice=timedelta(minutes=1))
    assert agent.reads(soon) == ["shorten drain"]
    shorter = ShortenHook("A", Phase.SCHEDULED, "drain", after(60) - MARGIN)
    assert agent.actions[-1] == shorter
    assert [entry.seen for entry in agent.notes] == [soon]
    assert agent.reads(event(notice=timedelta(minutes=-1))) == ["shorten drain"]
    assert agent.actions[-1] == replace(shorter, deadline=NOW + LEAST_TIME)


@pytest.mark.spec("G4")
def test_a_cancelled_event_stops_preparation_then_recovers() -> None:
    """Recovery never runs together with preparation."""
    agent = PlannedAgent(DRAIN, BACK)
    agent.reads(event())
    assert agent.reads() == ["stop drain"]
    assert [(entry.step, entry.cancelled) for entry in agent.notes] == [("over", True)]
    assert agent.ends("drain", "was stopped") == ["run back"]
    assert agent.runs[0].cancelled


# --- The order of hooks ---------------------------------------------------------------------------

SAVE, STOP = hook("save"), hook("stop", order=10)
UP, JOIN = hook("up", Phase.OVER, order=1), hook("join", Phase.OVER, order=2)


def test_a_failed_hook_ends_the_order() -> None:
    """What follows a required hook relies on it; one that is not required may fail."""
    agent = PlannedAgent(DRAIN, STOP)
    agent.reads(event())
    agent.ends("drain", "exit code 1")
    assert len(agent.actions) == 1
    agent = PlannedAgent(NOTE, STOP)
    agent.reads(event())
    assert agent.ends("note", NO_TIME_LEFT) == ["run stop"]


def test_no_hook_begins_after_the_start_of_its_event() -> None:
    """Its phase is over; those of the phase `started` have their own order."""
    flush, tell = hook("flush", Phase.STARTED), hook("tell", Phase.STARTED, order=1)
    agent = PlannedAgent(DRAIN, STOP, tell, flush)
    agent.reads(event())
    assert agent.reads(event(started=True)) == ["run flush"]
    assert agent.ends("drain") == []
    assert agent.ends("flush") == ["run tell"]


def test_what_undoes_has_an_order_too() -> None:
    """A hook waits until the failed one before it has succeeded; a new event waits for neither."""
    agent = drained(DRAIN, JOIN, UP)
    assert agent.reads() == ["run up"]
    assert agent.ends("up", "exit code 1") == []
    assert agent.reads(event("B")) == ["run drain"]
    assert agent.ends("drain", of="B") == ["approve B"]
    assert agent.reads() == ["run up"]
    assert agent.ends("up", of="B") == ["run join"]


# --- Two events: one is finished before the other -------------------------------------------------


@pytest.mark.spec("G4", "G6")
@pytest.mark.parametrize("failed", ["", "exit code 1"])
def test_a_replaced_event_is_undone_before_the_new_one_is_prepared(failed: str) -> None:
    """The document has the new event and no longer the old one; also if undoing failed."""
    agent = drained(DRAIN, BACK)
    assert agent.reads(event("B", type=EventType.PREEMPT)) == ["run back"]
    assert agent.ends("back", failed) == ["run drain"]
    assert agent.ends("drain", of="B") == ["approve B"]
    assert agent.waits(after(3600)) == []  # the machine stays drained


@pytest.mark.spec("G4", "G6")
def test_undoing_takes_at_most_half_the_notice_of_the_next_event() -> None:
    """IG4: enough time is left to prepare for it, whichever of the two was known first."""
    agent = PlannedAgent(DRAIN, BACK)
    agent.reads(event("A", started=True))
    assert agent.reads(event("B", notice=timedelta(seconds=30) + MARGIN)) == ["run back"]
    assert agent.runs[0].deadline == after(15)
    assert agent.reads(event("B", notice=timedelta(seconds=20) + MARGIN)) == ["shorten back"]
    assert agent.actions[-1] == ShortenHook("A", Phase.OVER, "back", after(10))


@pytest.mark.spec("G4", "G6")
@pytest.mark.parametrize("other", [event("B"), event("B", "vm-2")])
def test_an_event_that_ends_beside_a_prepared_one_is_undone_after_it(other: Event) -> None:
    """The machine never ends undrained but approved, also if the event names it no longer.

    A restart does not change that.
    """
    agent = PlannedAgent(DRAIN, BACK)
    agent.reads(event("A"), event("B"))
    agent.ends("drain")
    agent.ends("drain", of="B")
    assert agent.reads(other) + agent.waits() == []
    again = PlannedAgent(DRAIN, BACK, journal=agent.journal)
    again.starts(other)
    assert again.runs == []
    for each in (agent, again):
        assert each.reads() == ["run back", "run back"]


# --- Errors (IB1) ---------------------------------------------------------------------------------


class PoisonType(str):
    """The type of an event that no code can handle."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise ArithmeticError("poison")


def poisoned(name: str, **more: bool) -> Event:
    """Return an event that makes decisions about it fail."""
    return replace(event(name, **more), type=PoisonType("Reboot"))  # type: ignore[arg-type]


@pytest.mark.spec("G4", "G6")
def test_an_error_stays_in_its_event() -> None:
    """The other event is handled, and the next document tries again, also after a restart."""
    drain, flush = (
        hook(name, phase, EventType.REBOOT)
        for name, phase in (("drain", Phase.SCHEDULED), ("flush", Phase.STARTED))
    )
    agent = PlannedAgent(drain, flush, BACK)
    assert sorted(agent.reads(poisoned("A"), event("B"))) == ["error in A", "run drain"]
    assert agent.reads(poisoned("A"), event("B")) == ["error in A"]
    assert agent.ends("drain", of="B") == ["approve B"]
    assert agent.reads(event("A"), event("B")) == ["run drain"]
    assert agent.reads(event("A"), poisoned("B", started=True)) == ["error in B"]
    assert agent.ends("drain") == ["approve A"]
    assert agent.reads() == ["run back", "run back"]


FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
SECOND = timedelta(seconds=1)
EDGES = [FIRST, FIRST + SECOND, NOW, LAST - SECOND, LAST]


@pytest.mark.spec("G4", "G6")
@pytest.mark.parametrize("policy", [ApprovalPolicy.WHEN_DONE, ApprovalPolicy.AT_ONCE])
@pytest.mark.parametrize("now", EDGES)
@pytest.mark.parametrize("not_before", EDGES)
def test_dates_at_the_edge(now: datetime, not_before: datetime, policy: ApprovalPolicy) -> None:
    """No date of an event or of the endpoint's clock is an error: the event is handled."""
    agent = PlannedAgent(DRAIN, BACK, approve=policy)
    listed = replace(event(), not_before=not_before)
    first = agent.reads(listed, now=now) + agent.ends("drain", now=now)
    assert sorted(first) == ["approve A", "run drain"]
    later = agent.answered(ApprovalResult.ACCEPTED, now) + agent.waits(now)
    later += agent.reads(listed, now=now) + agent.reads(now=now)
    later += agent.ends("back", "exit code 1", now=now) + agent.waits(now)
    assert not any(step.startswith("error") for step in later)


# --- Events of several machines -------------------------------------------------------------------


SHARED = event("A", *THREE)
NEARLY = NOW + NOTICE - MARGIN
"""Shortly before NotBefore."""
EARLY = NEARLY - timedelta(seconds=1)


@pytest.mark.spec("G5")
def test_the_leader_approves_once_all_are_ready() -> None:
    """The first of Resources approves when all living members are ready."""
    agent = PlannedAgent(DRAIN, group=FOLDER)
    agent.reads(SHARED)
    assert agent.plan.shared() == [SHARED]
    all_ready = members(*THREE, ready=THREE)
    assert agent.hears(all_ready) == []  # but this machine is not
    assert agent.ends("drain") == ["ready for A"]
    assert agent.hears(members(*THREE, ready=THREE[:2])) == []
    assert agent.hears(all_ready) == ["approve A"]
    assert agent.hears(all_ready) == []
    assert agent.plan.shared() == []


@pytest.mark.spec("G5")
@pytest.mark.parametrize(
    ("alive", "approved"),
    [(("vm-0", ME), []), ((ME,), ["approve A"]), ((ME, "vm-2"), ["approve A"])],
)
def test_machines_that_are_dead_or_unknown_are_waited_for(
    alive: tuple[str, ...], approved: list[str]
) -> None:
    """Until shortly before NotBefore; but a dead machine does not lead."""
    agent = drained(DRAIN, listed=event("A", "vm-0", ME, "vm-2"), group=FOLDER)
    state = members(*alive, ready=(ME, "vm-0"))
    assert agent.hears(state) == agent.hears(state, EARLY) == []
    assert agent.hears(state, NEARLY) == approved


@pytest.mark.spec("G5")
@pytest.mark.parametrize("alive", [THREE, THREE[:2]])
@pytest.mark.parametrize(("over_failures", "approved"), [(False, []), (True, ["approve A"])])
def test_a_member_that_failed_blocks_the_approval(
    alive: tuple[str, ...], over_failures: bool, approved: list[str]
) -> None:
    """Silence does not, and failures do not either if the configuration says so."""
    failed = members(*alive, ready=THREE[:2], failed=("vm-3",))
    group = replace(FOLDER, approve_over_failures=over_failures)
    agent = drained(DRAIN, listed=SHARED, group=group)
    if alive == THREE:
        assert agent.hears(failed) == []
    assert agent.hears(failed, NEARLY) == approved


@pytest.mark.spec("G5")
def test_a_member_that_failed_blocks_the_approval_while_it_is_silent() -> None:
    """It may not be reachable just then; only its readiness revokes the failure."""
    agent = PlannedAgent(DRAIN, group=FOLDER)
    agent.reads(SHARED)
    failed = members(*THREE, failed=("vm-2",))
    assert agent.hears(failed) == []  # this machine is not ready yet
    agent.ends("drain")
    assert agent.hears(members(ME, "vm-3"), NEARLY) == []
    assert agent.hears(members(*THREE, ready=("vm-2",)), NEARLY) == ["approve A"]


@pytest.mark.spec("G5")
@pytest.mark.parametrize("failure", ["exit code 1", NO_TIME_LEFT])
def test_a_machine_tells_its_group_that_a_required_hook_failed(failure: str) -> None:
    """Once, and again after a restart; an optional hook does not matter."""
    agent = PlannedAgent(DRAIN, NOTE, group=FOLDER)
    agent.reads(SHARED)
    assert agent.ends("note", "exit code 1") == []
    assert agent.ends("drain", failure) == ["failed A"]
    assert "failed A" not in agent.reads(event("A", *THREE, notice=timedelta(seconds=9)))
    lines = ("begun drain", "begun note", "done note", "done drain: exit code 1")
    again = PlannedAgent(group=FOLDER, journal=journal("seen", *lines, seen=SHARED))
    assert again.starts(SHARED) == ["failed A"]
    assert again.notes == []


@pytest.mark.spec("G5")
def test_a_machine_that_failed_may_become_ready() -> None:
    """Its hook had not begun, and NotBefore moved."""
    agent = PlannedAgent(DRAIN, group=FOLDER)
    agent.reads(event("A", *THREE, notice=timedelta(seconds=1)))
    agent.ends("drain", NO_TIME_LEFT)
    agent.reads(SHARED)
    assert agent.ends("drain") == ["ready for A"]
