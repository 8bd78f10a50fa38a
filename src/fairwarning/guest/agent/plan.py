"""The agent's decisions. Pure: documents, results and time in, actions out.

IG1: required hooks are done before an event is approved, and every preparation is undone by the
hooks of phase over. IG2: a hook is journaled before and after it runs; an interrupted hook runs
again for the same event. IG3: an agent approves only for its own machine, or as the leader of a
group. IG4: hooks of phase scheduled end before the event may start. IG5: only a document shows
that an event is over.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, HookSettings
from fairwarning.guest.events import Document, Event, normalize_name
from fairwarning.guest.watch import Phase, changes


@dataclass(frozen=True, slots=True)
class AgentJournalEntry:
    """A line of the agent's journal."""

    step: str  # seen, begun, done, approving, approved, over, forgotten
    event: str
    phase: str = ""
    hook: str = ""
    failed: str = ""  # the failure of the hook; empty: success
    cancelled: bool = False  # over without a start seen
    seen: Event | None = None


@dataclass(frozen=True, slots=True)
class WriteNote:
    """Write a journal entry durably before the next action."""

    entry: AgentJournalEntry


@dataclass(frozen=True, slots=True)
class RunHook:
    """Run a hook for an event; it must end by the deadline (IG4)."""

    hook: HookSettings
    phase: Phase
    event: Event
    deadline: datetime
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class ShortenHook:
    """Make the deadline of a running hook earlier."""

    event: str
    phase: Phase
    hook: str
    deadline: datetime


@dataclass(frozen=True, slots=True)
class StopHook:
    """Stop a running hook of an event that is over."""

    event: str
    phase: Phase
    hook: str


@dataclass(frozen=True, slots=True)
class SendApproval:
    """Approve an event."""

    event: Event


@dataclass(frozen=True, slots=True)
class SignalReady:
    """Tell the group that this machine is ready for an event."""

    event: Event


Action = WriteNote | RunHook | ShortenHook | StopHook | SendApproval | SignalReady


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The state of the machines that an event names."""

    alive: frozenset[str]
    ready: frozenset[str]


@dataclass(slots=True)
class EventState:
    """The agent's state for one event."""

    event: Event
    hooks: dict[tuple[str, str], str] = field(default_factory=dict)  # phase, hook -> state
    approving: bool = False
    approved_at: datetime | None = None  # when the endpoint accepted the approval
    ready_signalled: bool = False  # to the group
    over: bool = False
    cancelled: bool = False
    reappeared: Event | None = None  # listed again after it was gone; handled after recovery


RESEND_SECONDS = 5.0  # an approval without effect is sent again after this time
_NEVER = datetime.max.replace(tzinfo=UTC)
RUNNING, DONE, FAILED = "running", "done", "failed"


class AgentPlan:
    """Tracks every event that is relevant for the agent."""

    def __init__(self, config: AgentConfig, name: str) -> None:
        self._config = config
        self._name = name
        self._last = Document()
        self.known: dict[str, EventState] = {}

    # --- Restart ---

    def restore(self, entries: Iterable[AgentJournalEntry]) -> None:
        """Restore the state from the journal."""
        for entry in entries:
            if entry.seen is not None:
                self.known.setdefault(entry.event, EventState(entry.seen)).event = entry.seen
            if tracked := self.known.get(entry.event):
                self._apply(tracked, entry)
        current = (tracked.event for tracked in self.known.values() if not tracked.over)
        self._last = Document(0, tuple(current))

    def _apply(self, tracked: EventState, entry: AgentJournalEntry) -> None:
        match entry.step:
            case "begun":
                tracked.hooks[entry.phase, entry.hook] = RUNNING
            case "done":
                tracked.hooks[entry.phase, entry.hook] = FAILED if entry.failed else DONE
            case "approving":
                tracked.approving = True
            case "approved":
                tracked.approved_at = utc(0)  # the time is not in the journal
            case "over":
                tracked.over, tracked.cancelled = True, entry.cancelled
            case "forgotten":
                del self.known[entry.event]
            case _:
                pass

    def resume(self, document: Document, now: datetime) -> list[Action]:
        """Process the first document after a restart of the agent or the machine (G6)."""
        actions: list[Action] = []
        unsent = [
            tracked
            for tracked in self.known.values()
            if tracked.approving and not tracked.approved_at
        ]
        for tracked in self.known.values():
            current = document.find(tracked.event.id)
            tracked.event = current or tracked.event
            for (phase, name), state in list(tracked.hooks.items()):
                if state == RUNNING:
                    started = current is None or current.started
                    late = (phase == Phase.SCHEDULED and started) or (
                        phase != Phase.OVER and tracked.over
                    )
                    actions += self._rerun_hook(tracked, Phase(phase), name, now, late=late)
        actions += self.read(document, now)
        for tracked in list(self.known.values()):
            if tracked.over:
                actions += self._advance(tracked, now)
                continue
            actions += self._begin_phase(tracked, _phase(tracked.event), now)
        for tracked in unsent:
            if not tracked.over and not tracked.event.started:
                tracked.approving = self._may_approve(tracked)
                actions += [SendApproval(tracked.event)] if tracked.approving else []
        return actions

    def _rerun_hook(
        self, tracked: EventState, phase: Phase, name: str, now: datetime, *, late: bool
    ) -> list[Action]:
        """Run an interrupted hook again, unless it is too late for its phase."""
        hook = self._config.hook(name)
        if hook is not None and not late:
            return [self._run_hook(tracked, hook, phase, now)]
        tracked.hooks[phase, name] = FAILED
        return [
            WriteNote(
                AgentJournalEntry("done", tracked.event.id.upper(), phase, name, "was interrupted")
            )
        ]

    # --- Inputs ---

    def read(self, document: Document, now: datetime) -> list[Action]:
        """Process a document."""
        actions: list[Action] = []
        for change in changes(self._last, document):
            event = change.event
            key = event.id.upper()
            if key not in self.known and not self._is_relevant(event):
                continue
            tracked = self.known.get(key)
            if tracked is not None and tracked.over:  # recovery must end before it begins again
                tracked.reappeared = None if change.phase is Phase.OVER else event
                continue
            if tracked is None:
                if change.phase is Phase.OVER:
                    continue
                tracked = self.known[key] = EventState(event)
            if change.phase is Phase.OVER:
                actions += self._end_event(tracked, now, cancelled=change.cancelled)
            else:
                tracked.event = event
                actions.append(WriteNote(AgentJournalEntry("seen", key, seen=event)))
                actions += self._begin_phase(tracked, change.phase, now)
        self._last = document
        return actions

    def resend_approvals(self, now: datetime) -> list[Action]:
        """Approve events again that were approved and have not started, in case it was lost."""
        actions: list[Action] = []
        for tracked in self.known.values():
            approved_at = tracked.approved_at
            if approved_at is None or tracked.over or tracked.event.started:
                continue
            if (now - approved_at).total_seconds() > RESEND_SECONDS:
                tracked.approved_at = now
                actions += [SendApproval(tracked.event)] if self._may_approve(tracked) else []
        return actions

    def done(self, event: str, phase: Phase, hook: str, failed: str, now: datetime) -> list[Action]:
        """Process the end of a hook."""
        tracked = self.known.get(event.upper())
        if tracked is None or tracked.hooks.get((phase, hook)) != RUNNING:
            return []
        tracked.hooks[phase, hook] = FAILED if failed else DONE
        entry = AgentJournalEntry("done", event.upper(), phase, hook, failed)
        return [WriteNote(entry), *self._advance(tracked, now)]

    def approved(self, event: str, now: datetime, *, gone: bool = False) -> list[Action]:
        """Process an accepted approval, or with `gone` a refused one."""
        tracked = self.known.get(event.upper())
        if tracked is None:
            return []
        first = tracked.approved_at is None
        tracked.approved_at = _NEVER if gone else now  # do not send a refused approval again
        return (
            [WriteNote(AgentJournalEntry("approved", event.upper()))] if first and not gone else []
        )

    def tick(self, members: Mapping[str, GroupMembers], now: datetime) -> list[Action]:
        """Process the state of the groups, by event, and the passing of time."""
        actions: list[Action] = []
        for key, tracked in self.known.items():
            if not tracked.over and not tracked.approving and key in members:
                actions += self._approve_as_leader(tracked, members[key], now)
        return actions

    def shared(self) -> list[Event]:
        """Return the events that need the state of the group."""
        return [
            tracked.event
            for tracked in self.known.values()
            if not tracked.over
            and not tracked.approving
            and not tracked.event.started
            and len(tracked.event.resources) > 1
            and self._config.group is not None
        ]

    # --- One event ---

    def _is_relevant(self, event: Event) -> bool:
        return event.concerns(self._name) or any(
            hook.anyone and hook.fits(event) for hook in self._config.hooks
        )

    def _hooks(self, tracked: EventState, phase: Phase) -> list[HookSettings]:
        own = tracked.event.concerns(self._name) or (phase is Phase.OVER and bool(tracked.hooks))
        return [
            hook
            for hook in self._config.hooks
            if hook.phase == phase and hook.fits(tracked.event) and (own or hook.anyone)
        ]

    def _begin_phase(self, tracked: EventState, phase: Phase, now: datetime) -> list[Action]:
        actions: list[Action] = []
        if phase is Phase.CHANGED:  # it may name this machine now, or start earlier
            phase = _phase(tracked.event)
            actions += self._shorten_hooks(tracked)
        for hook in self._hooks(tracked, phase):
            if (phase, hook.name) not in tracked.hooks:
                actions += self._start_hook(tracked, hook, phase, now)
        return [*actions, *self._advance(tracked, now)]

    def _shorten_hooks(self, tracked: EventState) -> list[Action]:
        if tracked.event.not_before is None:
            return []
        deadline = tracked.event.not_before - self._config.margin
        return [
            ShortenHook(tracked.event.id, Phase.SCHEDULED, name, deadline)
            for (phase, name), state in tracked.hooks.items()
            if phase == Phase.SCHEDULED and state == RUNNING
        ]

    def _start_hook(
        self, tracked: EventState, hook: HookSettings, phase: Phase, now: datetime
    ) -> list[Action]:
        tracked.hooks[phase, hook.name] = RUNNING
        entry = AgentJournalEntry("begun", tracked.event.id.upper(), phase, hook.name)
        return [WriteNote(entry), self._run_hook(tracked, hook, phase, now)]

    def _run_hook(
        self, tracked: EventState, hook: HookSettings, phase: Phase, now: datetime
    ) -> RunHook:
        deadline = now + hook.timeout
        if phase is Phase.SCHEDULED and tracked.event.not_before and not tracked.event.started:
            deadline = min(deadline, tracked.event.not_before - self._config.margin)
        return RunHook(hook, phase, tracked.event, max(deadline, now), tracked.cancelled)

    def _advance(self, tracked: EventState, now: datetime) -> list[Action]:
        """Take the next step for an event, if nothing blocks it."""
        if tracked.over:
            return self._recover(tracked, now)
        if tracked.approving or tracked.event.started or not self._ready(tracked):
            return []
        if len(tracked.event.resources) > 1 and self._config.group is not None:
            if tracked.ready_signalled:
                return []
            tracked.ready_signalled = True
            return [SignalReady(tracked.event)]
        return self._approve(tracked)

    def _ready(self, tracked: EventState) -> bool:
        """Whether required hooks are done and this agent may approve (IG1, IG3)."""
        if not self._may_approve(tracked):
            return False
        if self._config.approves(tracked.event) is ApprovalPolicy.AT_ONCE:
            return True
        required = [hook for hook in self._hooks(tracked, Phase.SCHEDULED) if hook.required]
        states = [tracked.hooks.get((Phase.SCHEDULED, hook.name)) for hook in required]
        return all(state == DONE for state in states)

    def _may_approve(self, tracked: EventState) -> bool:
        """IG3: whether the event names this machine alone, or there is a group to coordinate."""
        event = tracked.event
        coordinated = len(event.resources) == 1 or self._config.group is not None
        never = self._config.approves(event) is ApprovalPolicy.NEVER
        return event.concerns(self._name) and coordinated and not never

    def _approve(self, tracked: EventState) -> list[Action]:
        if not self._may_approve(tracked):
            return []
        tracked.approving = True
        return [
            WriteNote(AgentJournalEntry("approving", tracked.event.id.upper())),
            SendApproval(tracked.event),
        ]

    def _approve_as_leader(
        self, tracked: EventState, members: GroupMembers, now: datetime
    ) -> list[Action]:
        """Approve for the group if this machine leads it and all members are ready (G5)."""
        event = tracked.event
        if event.started or not self._may_approve(tracked):
            return []
        earlier = _earlier_resources(event, self._name)
        if any(normalize_name(name) in members.alive for name in earlier):
            return []  # the first living machine in the list leads
        own_name = normalize_name(self._name)
        names = [normalize_name(name) for name in event.resources]
        others = [name for name in names if name in members.alive and name != own_name]
        all_ready = self._ready(tracked) and all(name in members.ready for name in others)
        due = event.not_before is not None and now >= event.not_before - self._config.margin
        return self._approve(tracked) if all_ready or (due and self._ready(tracked)) else []

    def _end_event(self, tracked: EventState, now: datetime, *, cancelled: bool) -> list[Action]:
        not_before = tracked.event.not_before
        # The agent may have missed the start: an event that was approved or due has taken place.
        cancelled = cancelled and not tracked.approving and (not_before is None or now < not_before)
        tracked.over, tracked.cancelled = True, cancelled
        stops = [
            StopHook(tracked.event.id, Phase(phase), name)
            for (phase, name), state in tracked.hooks.items()
            if state == RUNNING
        ]
        entry = AgentJournalEntry("over", tracked.event.id.upper(), cancelled=cancelled)
        return [WriteNote(entry), *stops, *self._advance(tracked, now)]

    def _recover(self, tracked: EventState, now: datetime) -> list[Action]:
        """Run the hooks of phase over once no other hook runs, then forget the event."""
        if RUNNING in tracked.hooks.values():
            return []
        actions: list[Action] = []
        for hook in self._hooks(tracked, Phase.OVER):
            if (Phase.OVER, hook.name) not in tracked.hooks:
                actions += self._start_hook(tracked, hook, Phase.OVER, now)
        if actions:
            return actions
        key = tracked.event.id.upper()
        del self.known[key]
        forgotten = WriteNote(AgentJournalEntry("forgotten", key))
        if tracked.reappeared is None or not self._is_relevant(tracked.reappeared):
            return [forgotten]
        new = self.known[key] = EventState(tracked.reappeared)
        seen = WriteNote(AgentJournalEntry("seen", key, seen=new.event))
        return [forgotten, seen, *self._begin_phase(new, _phase(new.event), now)]


def _phase(event: Event) -> Phase:
    """Return the phase of a listed event."""
    return Phase.STARTED if event.started else Phase.SCHEDULED


def _earlier_resources(event: Event, name: str) -> list[str]:
    """Return the machines that an event lists before this one."""
    earlier: list[str] = []
    for resource in event.resources:
        if normalize_name(resource) == normalize_name(name):
            break
        earlier.append(resource)
    return earlier


def utc(now: float) -> datetime:
    """Convert a Unix time to UTC."""
    return datetime.fromtimestamp(now, UTC)
