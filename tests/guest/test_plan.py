"""What the agent decides, in a time of the test's own."""

from datetime import timedelta
from itertools import takewhile

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, GroupSettings
from fairwarning.guest.agent.plan import (
    Action,
    AgentJournalEntry,
    AgentPlan,
    GroupMembers,
    RunHook,
    SendApproval,
    ShortenHook,
    SignalReady,
    StopHook,
    WriteNote,
    utc,
)
from fairwarning.guest.events import Event, EventSource, EventType
from fairwarning.guest.watch import EventPhase
from tests.guest.lives import Lives
from tests.guest.notices import (
    MARGIN,
    ME,
    NOTICE,
    NOW,
    document,
    entries,
    event,
    hook,
    runs,
    sends,
)

DRAIN = hook("drain")
NOTE = hook("note", required=False)
FLUSH = hook("flush", EventPhase.STARTED)
BACK = hook("back", EventPhase.OVER)
ALL = (DRAIN, NOTE, FLUSH, BACK)
FOLDER = GroupSettings(folder="/shared")
THREE = (ME, "vm-2", "vm-3")


def plan(
    *hooks_: object,
    approve: ApprovalPolicy = ApprovalPolicy.WHEN_DONE,
    group: GroupSettings | None = None,
) -> AgentPlan:
    """A plan of this machine with these hooks."""
    return AgentPlan(AgentConfig(hooks=hooks_ or ALL, approve={"": approve}, group=group), ME)  # type: ignore[arg-type]


def members(*alive: str, ready: tuple[str, ...] = ()) -> GroupMembers:
    """Who is there, and who of them is ready."""
    return GroupMembers(frozenset(alive), frozenset(ready))


# --- Hooks and approval ---------------------------------------------------------------------------


@pytest.mark.spec("G4", "G5")
def test_an_event_from_its_notice_to_its_end() -> None:
    """Hooks of each phase run once, in their phase; approval follows the required one."""
    it = plan()
    first = it.read(document(event()), NOW)
    assert runs(first) == ["drain", "note"]
    assert sends(first) == []
    assert sends(it.done("A", EventPhase.SCHEDULED, "drain", "", NOW)) == ["A"]
    assert it.done("A", EventPhase.SCHEDULED, "note", "", NOW) == [
        WriteNote(AgentJournalEntry("done", "A", EventPhase.SCHEDULED, "note"))
    ]
    assert it.approved("A", NOW) == [WriteNote(AgentJournalEntry("approved", "A"))]
    assert runs(it.read(document(event(started=True)), NOW)) == ["flush"]
    it.done("A", EventPhase.STARTED, "flush", "", NOW)
    over = it.read(document(), NOW)
    assert runs(over) == ["back"]
    assert [one.step for one in entries(over)] == ["over", "begun"]
    last = it.done("A", EventPhase.OVER, "back", "", NOW)
    assert [one.step for one in entries(last)] == ["done", "forgotten"]
    assert it.known == {}


@pytest.mark.spec("G6")
def test_every_step_is_noted_before_it_is_taken() -> None:
    """A hook that begins and an approval that is sent stand right behind their lines."""
    it = plan(DRAIN)
    begun = it.read(document(event()), NOW)
    done = it.done("A", EventPhase.SCHEDULED, "drain", "", NOW)
    assert [type(one) for one in begun] == [WriteNote, WriteNote, RunHook]
    assert [one.step for one in entries(begun)] == ["seen", "begun"]
    assert [type(one) for one in done] == [WriteNote, WriteNote, SendApproval]
    assert [one.step for one in entries(done)] == ["done", "approving"]


@pytest.mark.spec("G5")
def test_every_required_hook_has_to_be_done() -> None:
    """Two of them, in any order; IG1."""
    it = plan(DRAIN, hook("save"))
    it.read(document(event()), NOW)
    assert sends(it.done("A", EventPhase.SCHEDULED, "save", "", NOW)) == []
    assert sends(it.done("A", EventPhase.SCHEDULED, "drain", "", NOW)) == ["A"]


@pytest.mark.spec("G5")
def test_a_required_hook_that_failed_withholds_approval() -> None:
    """The event begins in its own time, and is recovered from all the same."""
    it = plan(DRAIN, BACK)
    it.read(document(event()), NOW)
    failed = it.done("A", EventPhase.SCHEDULED, "drain", "exit code 1", NOW)
    assert failed == [
        WriteNote(AgentJournalEntry("done", "A", EventPhase.SCHEDULED, "drain", "exit code 1"))
    ]
    assert sends(it.read(document(event(started=True)), NOW)) == []
    assert runs(it.read(document(), NOW)) == ["back"]


@pytest.mark.spec("G5")
def test_an_optional_hook_may_fail_or_still_run() -> None:
    """It has no say in the approval."""
    it = plan(NOTE)
    first = it.read(document(event()), NOW)
    assert runs(first) == ["note"]
    assert sends(first) == ["A"]
    assert sends(it.done("A", EventPhase.SCHEDULED, "note", "exit code 1", NOW)) == []


@pytest.mark.spec("G5")
def test_without_hooks_an_event_is_approved_as_it_comes() -> None:
    """Nothing has to be done, so everything is."""
    assert sends(AgentPlan(AgentConfig(), ME).read(document(event()), NOW)) == ["A"]


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
def test_when_an_event_is_approved(
    rule: ApprovalPolicy, source: EventSource, at_first: bool, when_done: bool
) -> None:
    """As the policy says; hooks run under each."""
    it = plan(approve=rule)
    first = it.read(document(event(source=source)), NOW)
    assert runs(first) == ["drain", "note"]
    assert bool(sends(first)) == at_first
    assert bool(sends(it.done("A", EventPhase.SCHEDULED, "drain", "", NOW))) == when_done


@pytest.mark.spec("G5")
def test_each_type_may_have_a_policy_of_its_own() -> None:
    """The rest has the default's."""
    rules = {"Freeze": ApprovalPolicy.AT_ONCE, "Preempt": ApprovalPolicy.NEVER}
    it = AgentPlan(AgentConfig(approve=rules, hooks=(DRAIN,)), ME)
    freeze = event("F", type=EventType.FREEZE)
    preempt = event("P", type=EventType.PREEMPT)
    assert sends(it.read(document(freeze, preempt, event("R")), NOW)) == ["F"]
    assert sends(it.done("P", EventPhase.SCHEDULED, "drain", "", NOW)) == []
    assert sends(it.done("R", EventPhase.SCHEDULED, "drain", "", NOW)) == ["R"]


@pytest.mark.spec("G4")
def test_hooks_run_for_the_kinds_they_are_for() -> None:
    """By type and by source."""
    it = plan(
        hook("freezes", EventPhase.SCHEDULED, EventType.FREEZE),
        hook("users", source="User"),
        hook("any"),
    )
    assert runs(it.read(document(event("A", type=EventType.FREEZE)), NOW)) == ["freezes", "any"]
    two = document(event("A", type=EventType.FREEZE), event("B", source=EventSource.USER))
    assert runs(it.read(two, NOW)) == ["users", "any"]


@pytest.mark.spec("G4")
def test_several_events_at_once_are_told_apart() -> None:
    """Each has its own hooks, approval and end; ids are compared without regard to case."""
    it = plan(DRAIN, BACK)
    it.read(document(event("a"), event("B"), event("C")), NOW)
    assert sends(it.done("B", EventPhase.SCHEDULED, "drain", "", NOW)) == ["B"]
    assert sends(it.done("A", EventPhase.SCHEDULED, "drain", "", NOW)) == ["a"]
    over = it.read(document(event("A"), event("C")), NOW)
    assert [(one.event.id, one.hook.name) for one in over if isinstance(one, RunHook)] == [
        ("B", "back")
    ]


# --- Whose events ---------------------------------------------------------------------------------


@pytest.mark.spec("G5")
def test_an_event_of_another_machine_is_none_of_ours() -> None:
    """No hook, no approval, no line (IG3)."""
    it = plan()
    assert it.read(document(event("A", "vm-2")), NOW) == []
    assert it.read(document(), NOW) == []


@pytest.mark.spec("G4", "G5")
def test_hooks_for_anyone_run_for_others_events_but_do_not_approve_them() -> None:
    """IG3."""
    watch = hook("watch", anyone=True)
    it = plan(DRAIN, watch)
    assert runs(it.read(document(event("A", "vm-2")), NOW)) == ["watch"]
    assert sends(it.done("A", EventPhase.SCHEDULED, "watch", "", NOW)) == []
    assert [one.step for one in entries(it.read(document(), NOW))] == ["over", "forgotten"]


@pytest.mark.spec("G5")
def test_nobody_speaks_for_others_unasked() -> None:
    """An event of several machines is approved by a group only (IG3)."""
    it = plan(DRAIN)
    it.read(document(event("A", *THREE)), NOW)
    assert it.done("A", EventPhase.SCHEDULED, "drain", "", NOW) == [
        WriteNote(AgentJournalEntry("done", "A", EventPhase.SCHEDULED, "drain"))
    ]


def test_names_are_compared_as_the_endpoint_means_them() -> None:
    """2017's underscore and case do not count."""
    assert sends(AgentPlan(AgentConfig(), "VM-1").read(document(event("A", "_vm-1")), NOW)) == ["A"]


def test_an_event_may_come_to_name_this_machine() -> None:
    """From then on its hooks run."""
    it = plan(DRAIN)
    it.read(document(event("A", "vm-2")), NOW)
    assert runs(it.read(document(event("A", "vm-2", ME)), NOW)) == ["drain"]


@pytest.mark.spec("G4")
def test_what_was_prepared_is_recovered_also_when_the_event_names_us_no_longer() -> None:
    """IG1: whoever drained has to be brought back."""
    it = plan(DRAIN, BACK, group=FOLDER)
    it.read(document(event("A", ME, "vm-2")), NOW)
    it.done("A", EventPhase.SCHEDULED, "drain", "", NOW)
    after = it.read(document(event("A", "vm-2")), NOW)
    after += it.read(document(), NOW)
    assert runs(after) == ["back"]


# --- Time -----------------------------------------------------------------------------------------


def time_limits(actions: list[Action]) -> list[timedelta]:
    """How long the hooks that begin have."""
    return [one.deadline - NOW for one in actions if isinstance(one, RunHook)]


@pytest.mark.spec("G4")
def test_a_hook_ends_before_the_event_may_begin() -> None:
    """IG4: its own time, or what the notice leaves less a margin."""
    short = hook("short", timeout=timedelta(seconds=7))
    long = hook("long", timeout=timedelta(hours=1))
    assert time_limits(plan(short, long).read(document(event()), NOW)) == [
        timedelta(seconds=7),
        NOTICE - MARGIN,
    ]
    assert time_limits(plan(long).read(document(event(notice=None)), NOW)) == [timedelta(hours=1)]
    assert time_limits(plan(long).read(document(event(notice=timedelta(seconds=2))), NOW)) == [
        timedelta(0)
    ]


@pytest.mark.spec("G4")
def test_a_notice_that_gets_shorter_shortens_its_hooks() -> None:
    """Those that run; the others' time is gone."""
    it = plan(DRAIN, NOTE, BACK)
    it.read(document(event()), NOW)
    it.done("A", EventPhase.SCHEDULED, "note", "", NOW)
    soon = event(notice=timedelta(minutes=1))
    changed = it.read(document(soon), NOW)
    assert [one for one in changed if isinstance(one, ShortenHook)] == [
        ShortenHook("A", EventPhase.SCHEDULED, "drain", NOW + timedelta(minutes=1) - MARGIN)
    ]
    assert [one.seen for one in entries(changed)] == [soon]
    assert runs(changed) == []


@pytest.mark.spec("G4")
def test_an_event_that_has_begun_unannounced() -> None:
    """There is nothing to prepare or to approve, but there is to recover from."""
    it = plan()
    sudden = it.read(document(event(started=True)), NOW)
    assert runs(sudden) == ["flush"]
    assert sends(sudden) == []
    it.done("A", EventPhase.STARTED, "flush", "", NOW)
    (run,) = [one for one in it.read(document(), NOW) if isinstance(one, RunHook)]
    assert (run.hook, run.cancelled) == (BACK, False)


@pytest.mark.spec("G4")
def test_a_cancelled_event_stops_what_prepares_and_recovers_then() -> None:
    """Recovery never runs beside preparation."""
    it = plan(DRAIN, BACK)
    it.read(document(event()), NOW)
    cancelled = it.read(document(), NOW)
    assert cancelled == [
        WriteNote(AgentJournalEntry("over", "A", cancelled=True)),
        StopHook("A", EventPhase.SCHEDULED, "drain"),
    ]
    last = it.done("A", EventPhase.SCHEDULED, "drain", "was stopped", NOW)
    (run,) = [one for one in last if isinstance(one, RunHook)]
    assert (run.hook, run.cancelled) == (BACK, True)
    assert sends(last) == []


@pytest.mark.spec("G6")
def test_an_id_that_comes_back_is_a_new_life() -> None:
    """Once the old one is recovered; what ends of that counts for nothing in the new one."""
    it = plan(DRAIN, BACK)
    it.read(document(event()), NOW)
    it.read(document(), NOW)
    assert runs(it.read(document(event()), NOW)) == []
    assert runs(it.done("A", EventPhase.SCHEDULED, "drain", "was stopped", NOW)) == ["back"]
    assert runs(it.done("A", EventPhase.OVER, "back", "", NOW)) == ["drain"]
    assert sends(it.done("A", EventPhase.SCHEDULED, "drain", "", NOW)) == ["A"]


def test_what_is_not_known_says_nothing() -> None:
    """Ends and approvals of events that are forgotten."""
    it = plan()
    assert it.done("X", EventPhase.SCHEDULED, "drain", "", NOW) == []
    assert it.approved("X", NOW) == []
    it.read(document(event()), NOW)
    it.done("A", EventPhase.SCHEDULED, "drain", "", NOW)
    assert it.done("A", EventPhase.SCHEDULED, "drain", "", NOW) == []
    it.approved("A", NOW)
    assert it.approved("A", NOW) == []


def test_an_approval_that_came_too_late_is_not_noted() -> None:
    """It is not sent again either."""
    it = plan(DRAIN)
    it.read(document(event()), NOW)
    it.done("A", EventPhase.SCHEDULED, "drain", "", NOW)
    assert it.approved("A", NOW, gone=True) == []
    assert it.approved("A", NOW) == []


def test_the_clock_is_read_in_utc() -> None:
    """As events have it."""
    assert utc(NOW.timestamp()) == NOW


# --- Groups ---------------------------------------------------------------------------------------


@pytest.mark.spec("G5")
def test_the_leader_approves_once_all_are_ready() -> None:
    """The first of Resources, when the others that live have said so."""
    it = plan(DRAIN, group=FOLDER)
    it.read(document(event("A", *THREE)), NOW)
    assert it.shared() == [event("A", *THREE)]
    all_ready = {"A": members(*THREE, ready=THREE)}
    assert it.tick(all_ready, NOW) == []  # but we are not
    done = it.done("A", EventPhase.SCHEDULED, "drain", "", NOW)
    assert done[1:] == [SignalReady(event("A", *THREE))]
    assert it.tick({"A": members(*THREE, ready=THREE[:2])}, NOW) == []
    assert sends(it.tick(all_ready, NOW)) == ["A"]
    assert it.tick(all_ready, NOW) == []
    assert it.shared() == []


@pytest.mark.spec("G5")
def test_the_dead_are_not_waited_for() -> None:
    """Nor do they lead."""
    shared = event("A", "vm-0", ME, "vm-2")
    it = plan(DRAIN, group=FOLDER)
    it.read(document(shared), NOW)
    it.done("A", EventPhase.SCHEDULED, "drain", "", NOW)
    ready = (ME, "vm-0")
    assert it.tick({"A": members("vm-0", ME, ready=ready)}, NOW) == []
    assert sends(it.tick({"A": members(ME, ready=ready)}, NOW)) == ["A"]


@pytest.mark.spec("G5")
def test_when_time_is_nearly_up_the_leader_waits_no_longer() -> None:
    """But for its own required hooks it does (IG1)."""
    nearly = NOW + NOTICE - MARGIN
    early = nearly - timedelta(seconds=1)
    others = {"A": members(*THREE)}
    it = plan(DRAIN, group=FOLDER)
    it.read(document(event("A", *THREE)), NOW)
    assert it.tick(others, nearly) == []
    it.done("A", EventPhase.SCHEDULED, "drain", "", early)
    assert it.tick(others, early) == []
    assert sends(it.tick(others, nearly)) == ["A"]


@pytest.mark.spec("G5")
@pytest.mark.parametrize("rule", [ApprovalPolicy.NEVER, ApprovalPolicy.USER_ONLY])
def test_a_leader_who_must_not_approve_does_not(rule: ApprovalPolicy) -> None:
    """Whatever the others say."""
    it = plan(DRAIN, approve=rule, group=FOLDER)
    it.read(document(event("A", *THREE)), NOW)
    assert SignalReady not in map(type, it.done("A", EventPhase.SCHEDULED, "drain", "", NOW))
    assert it.tick({"A": members(*THREE, ready=THREE)}, NOW + NOTICE) == []


@pytest.mark.spec("G5")
def test_alone_there_is_nobody_to_ask() -> None:
    """An event of one machine is approved without a look at the group."""
    it = plan(DRAIN, group=FOLDER)
    it.read(document(event()), NOW)
    assert it.shared() == []
    assert sends(it.done("A", EventPhase.SCHEDULED, "drain", "", NOW)) == ["A"]


@pytest.mark.spec("G5")
def test_what_has_begun_needs_no_leader() -> None:
    """Nor does an event that does not name us, though a hook for anyone made us know it."""
    it = plan(DRAIN, hook("watch", anyone=True, required=False), group=FOLDER)
    it.read(document(event("A", *THREE, started=True), event("B", "vm-2", "vm-3")), NOW)
    everybody = members(*THREE, ready=THREE)
    assert it.tick({"A": everybody, "B": members(ME, ready=(ME,))}, NOW + NOTICE) == []


# --- After a start --------------------------------------------------------------------------------


def restored(*lines: AgentJournalEntry, group: GroupSettings | None = None) -> AgentPlan:
    """The plan of an agent that finds these in its journal."""
    it = plan(group=group)
    it.restore(lines)
    return it


SEEN = AgentJournalEntry("seen", "A", seen=event())
BEGUN = AgentJournalEntry("begun", "A", EventPhase.SCHEDULED, "drain")
DONE = AgentJournalEntry("done", "A", EventPhase.SCHEDULED, "drain")
NOTED = AgentJournalEntry("begun", "A", EventPhase.SCHEDULED, "note")
NOTE_DONE = AgentJournalEntry("done", "A", EventPhase.SCHEDULED, "note")
APPROVING = AgentJournalEntry("approving", "A")
APPROVED = AgentJournalEntry("approved", "A")
OVER = AgentJournalEntry("over", "A", cancelled=True)
RECOVERING = AgentJournalEntry("begun", "A", EventPhase.OVER, "back")
RECOVERED = AgentJournalEntry("done", "A", EventPhase.OVER, "back")


@pytest.mark.spec("G6")
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
def test_a_start_in_the_midst_of_preparation(
    lines: list[AgentJournalEntry], expected: list[str], approved: bool
) -> None:
    """What was cut off runs again, what was done does not, and approval is made good."""
    after = restored(*lines).resume(document(event()), NOW)
    assert runs(after) == expected
    assert set(sends(after)) == ({"A"} if approved else set())


@pytest.mark.spec("G6")
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
def test_a_start_after_the_event(lines: list[AgentJournalEntry], expected: list[str]) -> None:
    """The reboot itself was the event, perhaps: nothing prepares now, and all is recovered once."""
    it = restored(*lines)
    after = it.resume(document(), NOW)
    assert runs(after) == expected
    assert all(one.event.id == "A" for one in after if isinstance(one, RunHook))
    it.done("A", EventPhase.OVER, "back", "", NOW)
    assert it.known == {}


@pytest.mark.spec("G6")
def test_a_start_after_the_event_has_begun() -> None:
    """It is too late to prepare: the hook that was cut off has failed."""
    after = restored(SEEN, BEGUN).resume(document(event(started=True)), NOW)
    assert runs(after) == ["flush"]
    assert AgentJournalEntry(
        "done", "A", EventPhase.SCHEDULED, "drain", "was interrupted"
    ) in entries(after)
    assert sends(after) == []


@pytest.mark.spec("G6")
def test_a_hook_of_the_beginning_is_not_begun_again_after_the_end() -> None:
    """As one that still runs would be stopped; recovery does not wait for it."""
    started = AgentJournalEntry("seen", "A", seen=event(started=True))
    flushing = AgentJournalEntry("begun", "A", EventPhase.STARTED, "flush")
    for lines in ((started, flushing), (started, flushing, AgentJournalEntry("over", "A"))):
        it = restored(*lines)
        after = it.resume(document(), NOW)
        stops = [one.hook for one in after if isinstance(one, StopHook)]
        assert runs(after) == ["back"] or stops == ["flush"], lines


@pytest.mark.spec("G6")
def test_a_hook_that_the_configuration_has_no_longer() -> None:
    """It failed, and nobody waits for it."""
    it = AgentPlan(AgentConfig(), ME)
    it.restore([SEEN, BEGUN])
    after = it.resume(document(event()), NOW)
    assert runs(after) == []
    assert AgentJournalEntry(
        "done", "A", EventPhase.SCHEDULED, "drain", "was interrupted"
    ) in entries(after)


@pytest.mark.spec("G6")
def test_a_start_in_a_group_says_again_that_we_are_ready() -> None:
    """Whoever asks a peer that has started anew must hear it."""
    shared = event("A", *THREE)
    lines = [AgentJournalEntry("seen", "A", seen=shared), BEGUN, NOTED, NOTE_DONE, DONE]
    after = restored(*lines, group=FOLDER).resume(document(shared), NOW)
    assert after == [SignalReady(shared)]


@pytest.mark.spec("G5", "G6")
@pytest.mark.parametrize("resources", [("vm-2",), (ME, "vm-2")])
def test_an_approval_is_not_made_good_for_others(resources: tuple[str, ...]) -> None:
    """IG3: while the agent was away, the event came to name other machines."""
    it = restored(SEEN, BEGUN, DONE, APPROVING)
    assert sends(it.resume(document(event("A", *resources)), NOW)) == []


@pytest.mark.spec("G5", "G6")
def test_an_approval_is_not_made_good_against_the_configuration() -> None:
    """Somebody forbade it before he started the agent again."""
    it = AgentPlan(AgentConfig(hooks=ALL, approve={"": ApprovalPolicy.NEVER}), ME)
    it.restore([SEEN, BEGUN, DONE, APPROVING])
    assert sends(it.resume(document(event()), NOW)) == []


def test_lines_of_events_that_were_never_seen_are_passed_over() -> None:
    """Their first line was spoilt; the document tells of them again."""
    it = restored(BEGUN, DONE, AgentJournalEntry("what?", "A"))
    assert it.known == {}
    assert runs(it.resume(document(event()), NOW)) == ["drain", "note"]


def test_what_was_forgotten_stays_so() -> None:
    """A line of the journal that compaction has not taken away yet."""
    it = restored(SEEN, OVER, AgentJournalEntry("forgotten", "A"))
    assert it.known == {}
    assert it.resume(document(), NOW) == []


def test_a_plan_without_a_past_begins_as_any_reading() -> None:
    """`resume` on an empty journal, and nothing is approved twice."""
    after = AgentPlan(AgentConfig(), ME).resume(document(event()), NOW)
    assert sends(after) == ["A"]


def test_hooks_begin_together() -> None:
    """None waits for another: all begin before anything is waited for."""
    first = plan(DRAIN, NOTE).read(document(event(), event("B")), NOW)
    assert len(list(takewhile(lambda one: isinstance(one, WriteNote | RunHook), first))) == len(
        first
    )


def test_the_event_itself_is_what_hooks_are_told() -> None:
    """As it was last read."""
    it = plan(FLUSH)
    it.read(document(event()), NOW)
    begun: Event = event(started=True)
    (run,) = [one for one in it.read(document(begun), NOW) if isinstance(one, RunHook)]
    assert run.event == begun


# --- At random ------------------------------------------------------------------------------------


@pytest.mark.hypothesis
@pytest.mark.spec("G4", "G5", "G6")
def test_any_life_keeps_the_promises() -> None:
    """IG1 to IG5 hold through any readings, ends, looks, times and crashes."""
    examples = 2 * settings().max_examples
    run_state_machine_as_test(
        Lives, settings=settings(max_examples=examples, stateful_step_count=40)
    )
