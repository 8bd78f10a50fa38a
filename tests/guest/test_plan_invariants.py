"""A state machine test of the agent's plan: random documents, hook results, groups and crashes.

Events appear, replace others, start, vanish and come back. A crash may interrupt the actions of any
step at any point: the journal survives, running hooks do not. IG1 to IG7 and G5 are checked at each
step; the mark of IG6 is what the hook `drain` leaves until `back` removes it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fairwarning.guest import events
from fairwarning.guest.agent import hooks as runner
from fairwarning.guest.agent.actions import (
    Action,
    AgentJournalEntry,
    GroupMembers,
    ReportError,
    RunHook,
    SendApproval,
    ShortenHook,
    StopHook,
    WriteNote,
)
from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, GroupSettings, HookSettings
from fairwarning.guest.agent.event_rules import EventRules
from fairwarning.guest.agent.event_state import (
    LONGEST_RETRY_SECONDS,
    NO_TIME_LEFT,
    OUT_OF_TIME,
    ApprovalResult,
    EventState,
)
from fairwarning.guest.agent.plan import LEAST_TIME, AgentPlan
from fairwarning.guest.events import Document, Event, EventSource, EventStatus, EventType, Phase
from tests.campaigns import split
from tests.guest.notices import MARGIN, ME, NOW, hook

HOOKS = (
    hook("drain"),
    hook("save", Phase.SCHEDULED, EventType.REBOOT, timeout=timedelta(hours=2), order=1),
    hook("note", required=False),
    hook("flush", Phase.STARTED),
    hook("back", Phase.OVER),
    hook("tell", Phase.OVER, order=2),
)
LATER = hook("late")  # which a reload adds or removes
PREPARING = {"drain", "save", "note", "flush", "late"}  # only for events of this machine
KINDS = [EventType.FREEZE, EventType.REBOOT, "Levitate"]
SETTLE_SECONDS = 60  # the longest pause after a refused approval
NAMES = (ME, "vm-2", "vm-3")
RESOURCES = st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map(tuple)
NO_CRASH = 1_000_000  # more actions than any step has
CUTS = st.one_of(st.just(NO_CRASH), st.integers(0, 8))  # number of actions before a crash
NOTICES = st.sampled_from([None, 0, 3, 30, 900])
POLICIES = st.sampled_from(ApprovalPolicy)
RESULTS = st.sampled_from(ApprovalResult)
MEMBERS = st.sets(st.sampled_from(NAMES))
GROUPS = [
    None,
    GroupSettings(folder="/shared"),
    GroupSettings(folder="/shared", approve_over_failures=True),
]

FAILURES = st.sampled_from(["", "exit code 1", NO_TIME_LEFT, OUT_OF_TIME])

Key = tuple[str, Phase, str]


class AgentStateMachine(RuleBasedStateMachine):
    """One agent with its crashes, and the events of its machine."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.count = 0
        self.world: dict[str, Event] = {}
        self.read_last: dict[str, Event] = {}  # as any agent last read it
        self.notes: list[AgentJournalEntry] = []
        self.running: dict[Key, RunHook] = {}
        self.overdue: dict[Key, RunHook] = {}  # Python functions that hang
        self.held: set[Key] = set()  # hooks that wait for those
        self.begun: Counter[Key] = Counter()
        self.cut: Counter[Key] = Counter()
        self.again: Counter[Key] = Counter()  # failures after which a hook runs again
        self.limited: dict[Key, datetime] = {}  # when its deadline was set
        self.owed: set[Key] = set()  # hooks of documents that were fully processed
        self.listed: dict[str, Event] = {}  # the last document that this agent read
        self.sent: set[str] = set()
        self.once_sent: set[str] = set()  # by this process
        self.failed: set[str] = set()  # approvals that were refused, or not answered
        self.relied_on: set[str] = set()  # approved events for which the machine is drained
        self.drained = False
        self.ended: list[Event] = []
        self.sound = True  # False if a check failed during a step

    @initialize(approve=POLICIES, group=st.sampled_from(GROUPS))
    def start(self, approve: ApprovalPolicy, group: GroupSettings | None) -> None:
        """Start the agent for the first time."""
        self.config = AgentConfig(hooks=HOOKS, approve={"": approve}, group=group)
        self._restart()

    @rule(hooks=st.sampled_from([HOOKS, (*HOOKS, LATER)]), approve=POLICIES, cut=CUTS)
    def is_reloaded(
        self, hooks: tuple[HookSettings, ...], approve: ApprovalPolicy, cut: int
    ) -> None:
        """Change the hooks and the policy."""
        self.config = replace(self.config, hooks=hooks, approve={"": approve})
        self._take(self.plan.reconfigure(self.config, self.now), cut)

    def _restart(self) -> None:
        self.plan = AgentPlan(self.config, ME)
        self.plan.restore(self.notes)
        self.fresh = True

    # --- Events ---

    @rule(
        resources=RESOURCES,
        kind=st.sampled_from(KINDS),
        source=st.sampled_from(EventSource),
        started=st.booleans(),
        notice=NOTICES,
    )
    def appears(
        self,
        resources: tuple[str, ...],
        kind: EventType | str,
        source: EventSource,
        started: bool,
        notice: int | None,
    ) -> None:
        """Add an event, announced or already started."""
        self.count += 1
        status = EventStatus.STARTED if started else EventStatus.SCHEDULED
        when = None if started or notice is None else self.now + timedelta(seconds=notice)
        name = f"E{self.count}"
        self.world[name] = Event(name, kind, status, resources, when, source)

    @precondition(lambda self: self.world)
    @rule(data=st.data())
    def begins(self, data: st.DataObject) -> None:
        """Start an event, announced or not."""
        event = self._any(data)
        self.world[event.id] = replace(event, status=EventStatus.STARTED, not_before=None)

    @precondition(lambda self: self.world)
    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        """End an event, carried out or cancelled."""
        self.ended.append(self.world.pop(self._any(data).id))

    @precondition(lambda self: self.world)
    @rule(data=st.data(), cut=CUTS)
    def is_replaced(self, data: st.DataObject, cut: int) -> None:
        """One document has a new event of this machine, and no longer the old one."""
        self.ends(data)
        when = self.now + timedelta(seconds=900)
        self.count += 1
        new = Event(f"E{self.count}", EventType.REBOOT, EventStatus.SCHEDULED, (ME,), when, "User")
        self.world[new.id] = new
        self.reads(cut)

    @precondition(lambda self: self.ended)
    @rule()
    def comes_back(self) -> None:
        """List an event again that was gone."""
        event = self.ended.pop()
        self.world[event.id] = event

    @precondition(lambda self: self.world)
    @rule(data=st.data(), notice=NOTICES)
    def moves(self, data: st.DataObject, notice: int | None) -> None:
        """Change NotBefore."""
        event = self._any(data)
        if not event.started:
            when = None if notice is None else self.now + timedelta(seconds=notice)
            self.world[event.id] = replace(event, not_before=when)

    @precondition(lambda self: self.world)
    @rule(data=st.data(), resources=RESOURCES)
    def names_others(self, data: st.DataObject, resources: tuple[str, ...]) -> None:
        """Change the resources, possibly without this machine."""
        event = self._any(data)
        self.world[event.id] = replace(event, resources=resources)

    @precondition(lambda self: self.world and not self.fresh)
    @rule()
    def resources_are_reordered(self) -> None:
        """A mere order is no change, which the journal would note at each poll, but it counts."""
        self.reads(NO_CRASH)
        for event in list(self.world.values()):
            self.world[event.id] = replace(event, resources=event.resources[::-1])
        count = len(self.notes)
        self.reads(NO_CRASH)
        assert self.notes[count:] == []
        for event in self.world.values():
            tracked = self.plan.known.get(event.id)
            if tracked is not None and not tracked.over:
                assert tracked.event.resources == event.resources, "G5: another machine leads"

    @rule(seconds=st.sampled_from([1, 10, 1000]))
    def time_passes(self, seconds: int) -> None:
        """Advance time without a document, which must not end any event (IG5)."""
        self.now += timedelta(seconds=seconds)

    def _any(self, data: st.DataObject) -> Event:
        return data.draw(st.sampled_from(list(self.world.values())))

    # --- Inputs of the agent ---

    @rule(cut=CUTS)
    def reads(self, cut: int) -> None:
        """Read the document, at a start or later."""
        document = Document(1, tuple(self.world.values()))
        step = self.plan.resume if self.fresh else self.plan.read
        self.fresh = False
        self.listed = dict(self.world)
        self.read_last.update(self.world)
        self.relied_on &= self.world.keys()
        if not self._take(step(document, self.now), cut):
            return
        for event in self.world.values():
            tracked = self.plan.known.get(event.id)
            if tracked is not None and not tracked.over and not tracked.waits:
                phase = Phase.STARTED if event.started else Phase.SCHEDULED
                owed = self._fitting(event, phase)
                self.owed |= {(event.id, phase, each) for each in owed if each != "save"}

    @precondition(lambda self: self.running)
    @rule(data=st.data(), failed=FAILURES, cut=CUTS)
    def a_hook_ends(self, data: st.DataObject, failed: str, cut: int) -> None:
        """End a hook, with success or failure, or before it began."""
        key = data.draw(st.sampled_from(sorted(self.running)))
        if not failed and key in self.held:
            self.overdue_hooks_end()
        del self.running[key]
        self.held.discard(key)
        self.drained = self.drained or (key[2] == "drain" and not failed)
        in_time = failed not in {NO_TIME_LEFT, OUT_OF_TIME}
        self.again[key] += not in_time or (bool(failed) and key[1] is Phase.OVER)
        if not self._take(self.plan.done(*key, failed, self.now), cut):
            self.cut[key] += not self._noted("done", *key, failed=None if failed else False)

    @precondition(lambda self: self.running.keys() - self.held)
    @rule(data=st.data())
    def a_hook_overruns(self, data: st.DataObject) -> None:
        """Report the end of a Python function at its deadline, while it goes on."""
        key = data.draw(st.sampled_from(sorted(self.running.keys() - self.held)))
        self.overdue[key] = self.running.pop(key)
        self.again[key] += 1
        self._take(self.plan.done(*key, OUT_OF_TIME, self.now), NO_CRASH)

    @precondition(lambda self: self.overdue)
    @rule()
    def overdue_hooks_end(self) -> None:
        """Let hooks begin that waited for functions that hung."""
        self.overdue.clear()
        held, self.held = sorted(self.held), set()
        for key in held:
            self._check_beside(self.running[key])

    @precondition(lambda self: self.running)
    @rule()
    def all_hooks_succeed(self) -> None:
        """End all hooks, and those that follow."""
        self.overdue_hooks_end()
        while self.running:
            key = min(self.running)
            del self.running[key]
            self.drained = self.drained or key[2] == "drain"
            self._take(self.plan.done(*key, "", self.now), NO_CRASH)

    @rule(cut=CUTS)
    def a_tick(self, cut: int) -> None:
        """Let the agent do what is due."""
        self._take(self.plan.due(self.now), cut)

    @rule(alive=MEMBERS, ready=MEMBERS, failed=MEMBERS, cut=CUTS)
    def looks(self, alive: set[str], ready: set[str], failed: set[str], cut: int) -> None:
        """Read the state of the group; a member that failed blocks the approval."""
        shared = self.plan.shared()
        assert not shared or self.config.group
        members = GroupMembers(frozenset(alive | {ME}), frozenset(ready), frozenset(failed))
        keys = [event.id for event in shared]
        actions = self.plan.tick(dict.fromkeys(keys, members), self.now)
        for action in actions:
            if isinstance(action, SendApproval) and (group := self.config.group):
                others, event = set(action.event.resources) - {ME}, action.event
                assert not (failed - ready) & others or group.approve_over_failures, "G5"
                is_near = event.not_before and self.now >= event.not_before - MARGIN
                assert others <= ready or is_near, "G5: not all are ready"
        self._take(actions, cut)

    @precondition(lambda self: self.plan.shared())
    @rule()
    def is_alone(self) -> None:
        """No other machine of the group is heard of, when this one is ready."""
        self.all_hooks_succeed()
        self.looks(set(), set(), set(), NO_CRASH)

    @precondition(lambda self: self.once_sent)
    @rule(data=st.data(), result=RESULTS, cut=CUTS)
    def an_approval_is_answered(
        self, data: st.DataObject, result: ApprovalResult, cut: int
    ) -> None:
        """Answer an approval, also one of an event that has vanished and come back since."""
        name = data.draw(st.sampled_from(sorted(self.once_sent)))
        if name in self.sent:
            self.sent.discard(name)
            is_accepted = result is ApprovalResult.ACCEPTED
            (self.failed.discard if is_accepted else self.failed.add)(name)
        self._take(self.plan.approved(name, self.now, result), cut)

    @precondition(lambda self: (self.sent or self.failed) and not self.fresh)
    @rule(result=st.sampled_from([ApprovalResult.REFUSED, ApprovalResult.FAILED]))
    def approvals_fail(self, result: ApprovalResult) -> None:
        """Let time pass after that: they are sent again while there is time (IG7)."""
        for name in sorted(self.sent):
            self._take(self.plan.approved(name, self.now, result), NO_CRASH)
        self.failed |= self.sent
        self.sent.clear()
        self.now += timedelta(seconds=SETTLE_SECONDS)
        expected = {
            event.id
            for event in self.listed.values()
            if event.id in self.failed and self._may_be_approved(event)
        }
        actions = self.plan.due(self.now)
        sent = {action.event.id for action in actions if isinstance(action, SendApproval)}
        assert expected <= sent, "IG7"
        self._take(actions, NO_CRASH)

    @precondition(lambda self: self.sent and not self.fresh)
    @rule()
    def is_reloaded_before_approvals_fail(self) -> None:
        """An approval is sent again only once the hooks of a new configuration are done."""
        self.is_reloaded((*HOOKS, LATER), ApprovalPolicy.WHEN_DONE, NO_CRASH)
        self.approvals_fail(ApprovalResult.REFUSED)

    def _may_be_approved(self, event: Event) -> bool:
        tracked = self.plan.known.get(event.id)
        has_time = event.not_before is None or self.now < event.not_before - MARGIN
        if tracked is None or tracked.over or event.started or not has_time:
            return False
        may = event.concerns(ME) and (len(event.resources) == 1 or self.config.group is not None)
        policy = self.config.approves(event)
        is_ready = policy is ApprovalPolicy.AT_ONCE or self._unfinished(event) == []
        return may and is_ready and policy is not ApprovalPolicy.NEVER

    @rule()
    def crashes(self) -> None:
        """Crash between two steps."""
        self._crash()

    # --- Actions ---

    def _take(self, actions: list[Action], cut: int) -> bool:
        """Perform these actions, or only the first of them; return whether the agent survived."""
        self.sound = False
        for action in actions[:cut]:
            self._act(action)
        self.sound = True
        if cut < len(actions):
            self._crash()
            return False
        return True

    def _crash(self) -> None:
        self.cut.update(self.running.keys())
        for hooks in (self.running, self.overdue, self.held):
            hooks.clear()
        for names in (self.sent, self.once_sent, self.failed):
            names.clear()
        self._restart()

    def _act(self, action: Action) -> None:
        match action:
            case WriteNote(entry):
                self._note(entry)
            case ReportError(_, error):
                raise error
            case RunHook():
                self._begin(action)
            case SendApproval(event):
                self._check_approval(event)
                self.sent.add(event.id)
                self.once_sent.add(event.id)
            case ShortenHook(event, phase, name, deadline):
                run = self.running[event, phase, name]
                if deadline < run.deadline:
                    self.running[event, phase, name] = replace(run, deadline=deadline)
                    self.limited[event, phase, name] = self.now
            case StopHook(event, phase, name):
                assert (event, phase, name) in self.running

    def _note(self, entry: AgentJournalEntry) -> None:
        self.notes.append(entry)
        if entry.step == "over":
            assert entry.event not in self.listed, "IG5: the document lists it"
            self.relied_on.discard(entry.event)
        elif entry.step == "forgotten":
            if entry.event not in self.listed:  # else its hooks run at its next end
                self._check_recovery(entry.event)
            self.notes = [note for note in self.notes if note.event != entry.event]
            for counts in (self.begun, self.cut, self.again):
                for key in [key for key in counts if key[0] == entry.event]:
                    del counts[key]
            self.owed = {key for key in self.owed if key[0] != entry.event}

    def _check_recovery(self, event: str) -> None:
        for key in self.owed:
            assert key[0] != event or self.begun[key], f"IG2: {key} never ran"
        names = {name for id_, phase, name in self.begun if id_ == event and phase != Phase.OVER}
        for over in ["back"] * bool(names & PREPARING) + ["tell"] * bool(names):
            done = self._noted("done", event, Phase.OVER, over, failed=False)
            assert done, f"IG1, IG6: {over} of {event}"

    def _begin(self, run: RunHook) -> None:
        key = (run.event.id, run.phase, run.hook.name)
        assert self._noted("begun", *key), "IG2: journaled before it runs"
        assert not self._noted("done", *key) or self.again[key], "IG2: it was finished"
        assert not self._noted("done", *key, failed=False), "IG2: it has succeeded"
        assert key not in self.running, "IG2: the hook runs already"
        if run.phase is Phase.OVER:
            assert self._noted("over", run.event.id)
            preparing = [
                other for other in self.running if other[0] == key[0] and other[1] != Phase.OVER
            ]
            assert not preparing, "recovery runs during preparation"
        else:
            assert not self._noted("over", run.event.id)
        if any(runner.is_in_the_way(other, run) for other in self.overdue.values()):
            self.held.add(key)
        else:
            self._check_beside(run)
        if run.hook.name == "back":
            assert not self.relied_on, "IG1: it would undo a preparation"
            self.drained = False
        for each in HOOKS:
            comes_before = each.required and each.phase == run.phase and each.order < run.hook.order
            if comes_before and each.name in self._fitting(run.event, run.phase):
                done = self._noted("done", run.event.id, each.phase, each.name, failed=False)
                assert done, f"{run.hook.name} began before {each.name} had succeeded"
        assert run.deadline > self.now
        self.running[key], self.limited[key] = run, self.now
        self.begun[key] += 1

    def _check_beside(self, run: RunHook) -> None:
        beside = {"back"} if run.hook.name in PREPARING else PREPARING
        hanging = {  # a hook of phase started is held up by its own event only
            other
            for other in self.overdue
            if other[0] == run.event.id or Phase.STARTED not in {other[1], run.phase}
        }
        working = {other[2] for other in (self.running.keys() - self.held) | hanging}
        if run.hook.name in PREPARING | {"back"}:
            assert not beside & working, "IG1: side by side"
        assert run.hook.name not in {other[2] for other in self.overdue}, "IG1: beside itself"

    def _check_approval(self, event: Event) -> None:
        last = self.read_last[event.id]
        assert last.concerns(ME), "IG3"
        assert len(last.resources) == 1 or self.config.group, "IG3"
        assert isinstance(event.type, EventType), "IG1: nobody prepared for an unknown type"
        rule_ = self.config.approves(event)
        assert rule_ is not ApprovalPolicy.NEVER
        assert self._noted("approving", event.id)
        if rule_ is not ApprovalPolicy.AT_ONCE:
            assert self.drained, "IG1: approved, but not drained"
            self.relied_on.add(event.id)
            assert self._unfinished(event) == [], "IG1"

    def _unfinished(self, event: Event) -> list[str]:
        """Return the required hooks that have not succeeded, as far as the journal says."""
        return [
            each.name
            for each in self.config.hooks
            if each.required and each.phase == Phase.SCHEDULED and each.fits(event)
            if not self._noted("done", event.id, each.phase, each.name, failed=False)
        ]

    def _noted(
        self, step: str, event: str, phase: str = "", name: str = "", *, failed: bool | None = None
    ) -> bool:
        return any(
            (entry.step, entry.event, entry.phase, entry.hook) == (step, event, phase, name)
            and failed in {None, bool(entry.failed)}
            for entry in self.notes
        )

    def _fitting(self, event: Event, phase: Phase) -> list[str]:
        mine = event.concerns(ME)
        return [
            hook.name
            for hook in self.config.hooks
            if hook.phase == phase and hook.fits(event) and mine
        ]

    # --- Invariants ---

    @invariant()
    def hooks_end_in_time(self) -> None:
        """IG4, as far as the agent could know; a hook of an event that was over is stopped."""
        for key, run in self.running.items():
            last = self.read_last[key[0]]
            is_preparing = key[1] is Phase.SCHEDULED and not self._noted("over", key[0])
            if is_preparing and last.not_before and not last.started:
                latest = max(last.not_before - MARGIN, self.limited[key] + LEAST_TIME, self.now)
                assert run.deadline <= latest, "IG4"

    @invariant()
    def each_hook_runs_once_unless_interrupted(self) -> None:
        """IG2."""
        for key, times in self.begun.items():
            assert times <= 1 + self.cut[key] + self.again[key], key

    def teardown(self) -> None:
        """End all hooks, then all events, and check that every preparation was undone."""
        if not hasattr(self, "plan") or not self.sound:
            return
        self.reads(NO_CRASH)
        self._settle()
        assert not any(tracked.waits for tracked in self.plan.known.values()), "IG2: still waits"
        self.world.clear()
        self.reads(NO_CRASH)
        for _ in range(2 + len(self.plan.known)):
            self._settle()
        assert self.plan.known == {}, "all events are forgotten"
        assert not self.notes
        assert not self.drained, "IG6: the machine stays marked"

    def _settle(self) -> None:
        """Let all hooks succeed, and time pass."""
        self.all_hooks_succeed()
        self.now += timedelta(seconds=LONGEST_RETRY_SECONDS)
        self._take(self.plan.due(self.now), NO_CRASH)


@pytest.mark.hypothesis
@pytest.mark.spec("G4", "G5", "G6")
def test_invariants_hold() -> None:
    """Documents, hook results, group members, refusals, times and crashes in any order."""
    examples = 2 * settings().max_examples
    run_state_machine_as_test(
        AgentStateMachine, settings=settings(max_examples=examples, stateful_step_count=40)
    )


# --- Planted bugs, which the machine must find ---


def _always(value: object) -> Callable[..., object]:
    return lambda *_: value


def _start_silently(self: AgentPlan, *arguments: Any) -> list[Action]:  # noqa: ANN401  (of the method)
    return [action for action in START(self, *arguments) if not isinstance(action, WriteNote)]


def _due_without_document(self: AgentPlan, now: datetime) -> list[Action]:
    return self.read(Document(), now)


def _forget(self: AgentPlan, tracked: EventState, now: datetime) -> list[Action]:
    return self._forget(tracked, now)


def _count_any_answer(
    self: AgentPlan, event: str, now: datetime, result: ApprovalResult
) -> list[Action]:
    if tracked := self.known.get(event):
        tracked.approval_answered(now, result)
    return []


def _approve_at_any_time(_: AgentPlan, tracked: EventState, now: datetime) -> list[Action]:
    is_sent = tracked.resend is not None and tracked.resend.is_due(now)
    return [SendApproval(tracked.event)] if is_sent else []


def _send_unsent(self: AgentPlan, document: Document, now: datetime, *more: Any) -> list[Action]:  # noqa: ANN401  (of the method)
    unsent = [tracked for tracked in self.known.values() if tracked.approving]
    actions = RESUME(self, document, now, *more)
    return [*actions, *(SendApproval(each.event) for each in unsent if not each.over)]


def _is_changed(before: Event | None, event: Event) -> list[events.Change]:
    if before is not None and before.resources != event.resources:
        return [events.Change(events.Phase.CHANGED, event)]
    return CHANGES(before, event)


CHANGES = events._event_changes
RESUME = AgentPlan.resume
START = AgentPlan._start_hook
PLANTS: list[tuple[str, list[tuple[object, str, object]]]] = [
    ("IG1: approved before hooks", [(EventRules, "required_states", _always([]))]),
    ("IG1: prepared beside recovery", [(AgentPlan, "_may_begin", _always(value=True))]),
    (
        "IG1: a preparation is undone",
        [
            (AgentPlan, "_is_prepared", _always(value=False)),
            (EventState, "is_running", _always(value=False)),
        ],
    ),
    ("IG2: not journaled", [(AgentPlan, "_start_hook", _start_silently)]),
    ("IG2: an interrupted hook is lost", [(EventState, "interrupted", _always([]))]),
    ("IG2: waits for ever", [(AgentPlan, "_may_begin", _always(value=False))]),
    ("IG3", [(EventRules, "may_approve", _always(value=True))]),
    ("IG4", [(AgentPlan, "_time_left", _always(timedelta(hours=1)))]),
    ("IG5", [(AgentPlan, "due", _due_without_document)]),
    ("IG6", [(AgentPlan, "_recover", _forget)]),
    ("IG7", [(AgentPlan, "_approve_again", _always([]))]),
    ("order", [(EventRules, "may_follow", _always(value=True))]),
    ("IG1: beside a function that hangs", [(runner, "is_in_the_way", _always(value=False))]),
    ("a new order is noted", [(events, "_event_changes", _is_changed)]),
    ("G5", [(EventRules, "other_machines", _always([]))]),
    ("IG1: approved again too early", [(AgentPlan, "_approve_again", _approve_at_any_time)]),
    (
        "IG1: a stale answer counts",
        [
            (AgentPlan, "approved", _count_any_answer),
            (AgentPlan, "_approve_again", _approve_at_any_time),
        ],
    ),
    ("IG1: approved after a restart", [(AgentPlan, "resume", _send_unsent)]),
]


@pytest.mark.hypothesis
@pytest.mark.spec("G4", "G5", "G6")
@pytest.mark.parametrize(("name", "patches"), split(PLANTS, 1), ids=[name for name, _ in PLANTS])
def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, patches: list[tuple[object, str, object]]
) -> None:
    """Within 1,500 sequences, without a random choice of them."""
    for owner, attribute, value in patches:
        assert hasattr(owner, attribute), name
        monkeypatch.setattr(owner, attribute, value)
    search = settings(
        max_examples=1500,
        stateful_step_count=30,
        phases=[hypothesis.Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(Exception):  # noqa: B017  (of an invariant, or of the plan itself)
        run_state_machine_as_test(AgentStateMachine, settings=search)
