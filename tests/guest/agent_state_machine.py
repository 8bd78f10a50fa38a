"""A state machine test of the agent's plan: random documents, hook results, groups and crashes.

A crash may interrupt the actions of any step at any point: the journal survives, running hooks do
not. IG1 to IG5 are checked after each step.
"""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fairwarning.guest.agent.actions import (
    Action,
    AgentJournalEntry,
    GroupMembers,
    RunHook,
    SendApproval,
    ShortenHook,
    StopHook,
    WriteNote,
)
from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, GroupSettings
from fairwarning.guest.agent.event_state import LONGEST_RETRY_SECONDS, NO_TIME_LEFT, OUT_OF_TIME
from fairwarning.guest.agent.plan import LEAST_TIME, AgentPlan
from fairwarning.guest.events import Document, Event, EventSource, EventStatus, EventType
from fairwarning.guest.watch import Phase
from tests.guest.notices import MARGIN, ME, NOW, hook

HOOKS = (
    hook("drain"),
    hook("save", Phase.SCHEDULED, EventType.REBOOT, timeout=timedelta(hours=2)),
    hook("note", required=False),
    hook("watch", required=False, anyone=True),
    hook("flush", Phase.STARTED),
    hook("back", Phase.OVER),
    hook("unwatch", Phase.OVER, anyone=True),
)
NAMES = (ME, "vm-2", "vm-3")
RESOURCES = st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map(tuple)
NO_CRASH = 1_000_000  # more actions than any step has
CUTS = st.one_of(st.just(NO_CRASH), st.integers(0, 8))  # number of actions before a crash
NOTICES = st.sampled_from([None, 0, 3, 30, 900])
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
        self.begun: Counter[Key] = Counter()
        self.cut: Counter[Key] = Counter()
        self.again: Counter[Key] = Counter()  # failures after which a hook runs again
        self.limited: dict[Key, datetime] = {}  # when its deadline was set
        self.owed: set[Key] = set()  # hooks of documents that were fully processed
        self.sent: set[str] = set()
        self.sound = True  # False if a check failed during a step

    @initialize(
        approve=st.sampled_from(ApprovalPolicy),
        group=st.sampled_from(GROUPS),
    )
    def start(self, approve: ApprovalPolicy, group: GroupSettings | None) -> None:
        """Start the agent for the first time."""
        self.config = AgentConfig(hooks=HOOKS, approve={"": approve}, group=group)
        self._restart()

    def _restart(self) -> None:
        self.plan = AgentPlan(self.config, ME)
        self.plan.restore(self.notes)
        self.fresh = True

    # --- Events ---

    @rule(
        resources=RESOURCES,
        kind=st.sampled_from([EventType.FREEZE, EventType.REBOOT]),
        source=st.sampled_from(EventSource),
        started=st.booleans(),
        notice=NOTICES,
    )
    def appears(
        self,
        resources: tuple[str, ...],
        kind: EventType,
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
        del self.world[self._any(data).id]

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
        known = set(self.plan.known)
        self.fresh = False
        before = {key: self.plan.known[key].over for key in known}
        self.read_last.update(self.world)
        if not self._take(step(document, self.now), cut):
            return
        for key, over in before.items():
            assert over or key in self.world or self._noted("over", key), "IG5"
        for event in self.world.values():
            phase = Phase.STARTED if event.started else Phase.SCHEDULED
            self.owed |= {(event.id, phase, each) for each in self._fitting(event, phase)}

    @precondition(lambda self: self.running)
    @rule(data=st.data(), failed=FAILURES, cut=CUTS)
    def a_hook_ends(self, data: st.DataObject, failed: str, cut: int) -> None:
        """End a hook, with success or failure, or before it began."""
        key = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[key]
        in_time = failed not in {NO_TIME_LEFT, OUT_OF_TIME}
        self.again[key] += not in_time or (bool(failed) and key[1] is Phase.OVER)
        if not self._take(self.plan.done(*key, failed, self.now), cut):
            self.cut[key] += not self._noted("done", *key)

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
                blocking = (failed - ready) & set(action.event.resources) - {ME}
                assert not blocking or group.approve_over_failures, "G5"
        self._take(actions, cut)

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), gone=st.booleans(), cut=CUTS)
    def an_approval_is_answered(self, data: st.DataObject, gone: bool, cut: int) -> None:
        """Answer an approval: accepted, or too late."""
        name = data.draw(st.sampled_from(sorted(self.sent)))
        self.sent.discard(name)
        self._take(self.plan.approved(name, self.now, gone=gone), cut)

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
        self.running.clear()
        self.sent.clear()
        self._restart()

    def _act(self, action: Action) -> None:
        match action:
            case WriteNote(entry):
                self.notes.append(entry)
            case RunHook():
                self._begin(action)
            case SendApproval(event):
                self._check_approval(event)
                self.sent.add(event.id)
            case ShortenHook(event, phase, name, deadline):
                run = self.running[event, phase, name]
                if deadline < run.deadline:
                    self.running[event, phase, name] = replace(run, deadline=deadline)
                    self.limited[event, phase, name] = self.now
            case StopHook(event, phase, name):
                assert (event, phase, name) in self.running

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
        assert run.deadline > self.now
        self.running[key], self.limited[key] = run, self.now
        self.begun[key] += 1

    def _check_approval(self, event: Event) -> None:
        last = self.read_last[event.id]
        assert last.concerns(ME), "IG3"
        assert len(last.resources) == 1 or self.config.group, "IG3"
        rule_ = self.config.approves(event)
        assert rule_ is not ApprovalPolicy.NEVER
        assert self._noted("approving", event.id)
        if rule_ is not ApprovalPolicy.AT_ONCE:
            for each in HOOKS[:2]:
                if each.fits(event):
                    key = (event.id, Phase.SCHEDULED, each.name)
                    assert self._noted("done", *key, failed=False), "IG1"

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
            for hook in HOOKS
            if hook.phase == phase and hook.fits(event) and (mine or hook.anyone)
        ]

    # --- Invariants ---

    @invariant()
    def hooks_end_in_time(self) -> None:
        """IG4, as far as the agent could know."""
        for key, run in self.running.items():
            last = self.read_last[key[0]]
            if key[1] is Phase.SCHEDULED and last.not_before and not last.started:
                latest = max(last.not_before - MARGIN, self.limited[key] + LEAST_TIME, self.now)
                assert run.deadline <= latest, "IG4"

    @invariant()
    def each_hook_runs_once_unless_interrupted(self) -> None:
        """IG2."""
        for key, times in self.begun.items():
            assert times <= 1 + self.cut[key] + self.again[key], key

    def teardown(self) -> None:
        """End all events, and check that every preparation was undone."""
        if not hasattr(self, "plan") or not self.sound:
            return
        self.world.clear()
        self.reads(NO_CRASH)
        for _ in range(2 + len(self.plan.known)):
            while self.running:
                key = min(self.running)
                del self.running[key]
                self._take(self.plan.done(*key, "", self.now), NO_CRASH)
            self.now += timedelta(seconds=LONGEST_RETRY_SECONDS)
            self._take(self.plan.due(self.now), NO_CRASH)
        assert self.plan.known == {}, "all events are forgotten"
        for key in self.owed:
            assert self.begun[key], f"IG2: {key} never ran"
        for name in {name for name, phase, _ in self.begun if phase != Phase.OVER}:
            prepared = [key for key in self.begun if key[0] == name]
            by_us = any(key[2] in {"drain", "save", "note", "flush"} for key in prepared)
            for over in ["back", "unwatch"] if by_us else ["unwatch"]:
                key = (name, Phase.OVER, over)
                assert self._noted("done", *key, failed=False), f"IG1: {key}"
