"""What the agent does next. Pure: readings, results and time in, actions out.

IG1: required hooks are done before an event is approved, and whatever was prepared is recovered.
IG2: a hook is noted before it runs and after it ran; one that was cut off runs again, for the same
event. IG3: nobody approves for a machine he is not, except as the leader of a group. IG4: hooks
that prepare end before the event may begin. IG5: only a document says that an event is over.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, HookSettings
from fairwarning.guest.events import Document, Event, plain
from fairwarning.guest.watch import Phase, changes


@dataclass(frozen=True, slots=True)
class AgentJournalEntry:
    """A line of the agent's journal."""

    step: str  # seen, begun, done, approving, approved, over, forgotten
    event: str
    phase: str = ""
    hook: str = ""
    failed: str = ""  # why the hook failed; empty: it did not
    cancelled: bool = False  # over without having begun, as far as we saw
    seen: Event | None = None


@dataclass(frozen=True, slots=True)
class WriteNote:
    """Write this down, durably, before anything that follows."""

    entry: AgentJournalEntry


@dataclass(frozen=True, slots=True)
class RunHook:
    """Run a hook for an event; `ends` is when it must have ended (IG4)."""

    hook: HookSettings
    phase: Phase
    event: Event
    ends: datetime
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class ShortenHook:
    """A hook that still runs has less time than it was told."""

    event: str
    phase: Phase
    hook: str
    ends: datetime


@dataclass(frozen=True, slots=True)
class StopHook:
    """A hook that still runs for an event has lost its point."""

    event: str
    phase: Phase
    hook: str


@dataclass(frozen=True, slots=True)
class SendApproval:
    """Approve an event."""

    event: Event


@dataclass(frozen=True, slots=True)
class SignalReady:
    """Tell the others of the group that this machine is ready for an event."""

    event: Event


Action = WriteNote | RunHook | ShortenHook | StopHook | SendApproval | SignalReady


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """What is known of the machines that an event names."""

    alive: frozenset[str]
    ready: frozenset[str]


@dataclass(slots=True)
class EventState:
    """All that was done about one event."""

    event: Event
    hooks: dict[tuple[str, str], str] = field(default_factory=dict)  # phase, hook -> state
    approving: bool = False
    approved_at: datetime | None = None  # when the endpoint took it
    told: bool = False  # the others, that we are ready
    over: bool = False
    cancelled: bool = False
    back: Event | None = None  # it was gone, and is there again: a new life after this one


AGAIN_SECONDS = 5.0  # an approval that changes nothing for so long is sent again
_NEVER_AGAIN = datetime.max.replace(tzinfo=UTC)
RUNNING, DONE, FAILED = "running", "done", "failed"


class AgentPlan:
    """Knows every event that the agent has to do with."""

    def __init__(self, config: AgentConfig, name: str) -> None:
        self._config = config
        self._name = name
        self._last = Document()
        self.known: dict[str, EventState] = {}

    # --- After a start ---

    def restore(self, entries: Iterable[AgentJournalEntry]) -> None:
        """What the journal tells of the time before."""
        for entry in entries:
            if entry.seen is not None:
                self.known.setdefault(entry.event, EventState(entry.seen)).event = entry.seen
            if one := self.known.get(entry.event):
                self._remember(one, entry)
        self._last = Document(0, tuple(one.event for one in self.known.values() if not one.over))

    def _remember(self, one: EventState, entry: AgentJournalEntry) -> None:
        match entry.step:
            case "begun":
                one.hooks[entry.phase, entry.hook] = RUNNING
            case "done":
                one.hooks[entry.phase, entry.hook] = FAILED if entry.failed else DONE
            case "approving":
                one.approving = True
            case "approved":
                one.approved_at = utc(0)  # a while ago
            case "over":
                one.over, one.cancelled = True, entry.cancelled
            case "forgotten":
                del self.known[entry.event]
            case _:
                pass

    def resume(self, document: Document, now: datetime) -> list[Action]:
        """The first reading after a start: go on where the agent, or the machine, ended (G6)."""
        actions: list[Action] = []
        unsent = [one for one in self.known.values() if one.approving and not one.approved_at]
        for one in self.known.values():
            present = document.find(one.event.id)
            one.event = present or one.event
            for (phase, name), state in list(one.hooks.items()):
                if state == RUNNING:
                    begun = present is None or present.started
                    late = (phase == Phase.SCHEDULED and begun) or (
                        phase != Phase.OVER and one.over
                    )
                    actions += self._again(one, Phase(phase), name, now, late=late)
        actions += self.read(document, now)
        for one in list(self.known.values()):
            if one.over:
                actions += self._settle(one, now)
                continue
            actions += self._begin(one, _phase(one.event), now)
        for one in unsent:
            if not one.over and not one.event.started:
                one.approving = self._may_approve(one)
                actions += [SendApproval(one.event)] if one.approving else []
        return actions

    def _again(
        self, one: EventState, phase: Phase, name: str, now: datetime, *, late: bool
    ) -> list[Action]:
        """A hook that was cut off runs again, unless what it prepares for is here already."""
        hook = self._config.hook(name)
        if hook is not None and not late:
            return [self._run(one, hook, phase, now)]
        one.hooks[phase, name] = FAILED
        return [
            WriteNote(
                AgentJournalEntry("done", one.event.id.upper(), phase, name, "it was cut off")
            )
        ]

    # --- What happens ---

    def read(self, document: Document, now: datetime) -> list[Action]:
        """The document was read."""
        actions: list[Action] = []
        for change in changes(self._last, document):
            event = change.event
            key = event.id.upper()
            if key not in self.known and not self._cares(event):
                continue
            one = self.known.get(key)
            if one is not None and one.over:  # it was gone: what was prepared is recovered first
                one.back = None if change.phase is Phase.OVER else event
                continue
            if one is None:
                if change.phase is Phase.OVER:
                    continue
                one = self.known[key] = EventState(event)
            if change.phase is Phase.OVER:
                actions += self._end(one, now, cancelled=change.cancelled)
            else:
                one.event = event
                actions.append(WriteNote(AgentJournalEntry("seen", key, seen=event)))
                actions += self._begin(one, change.phase, now)
        self._last = document
        return actions

    def insist(self, now: datetime) -> list[Action]:
        """Approve again what was approved and does not begin: somebody may have lost it."""
        actions: list[Action] = []
        for one in self.known.values():
            at = one.approved_at
            if at is None or one.over or one.event.started:
                continue
            if (now - at).total_seconds() > AGAIN_SECONDS:
                one.approved_at = now
                actions += [SendApproval(one.event)] if self._may_approve(one) else []
        return actions

    def done(self, event: str, phase: Phase, hook: str, failed: str, now: datetime) -> list[Action]:
        """A hook has ended."""
        one = self.known.get(event.upper())
        if one is None or one.hooks.get((phase, hook)) != RUNNING:
            return []
        one.hooks[phase, hook] = FAILED if failed else DONE
        entry = AgentJournalEntry("done", event.upper(), phase, hook, failed)
        return [WriteNote(entry), *self._settle(one, now)]

    def approved(self, event: str, now: datetime, *, gone: bool = False) -> list[Action]:
        """The endpoint took our approval; or the event is not there (any more)."""
        one = self.known.get(event.upper())
        if one is None:
            return []
        first = one.approved_at is None
        one.approved_at = _NEVER_AGAIN if gone else now  # what is refused would be again
        return (
            [WriteNote(AgentJournalEntry("approved", event.upper()))] if first and not gone else []
        )

    def tick(self, members: Mapping[str, GroupMembers], now: datetime) -> list[Action]:
        """Time passed; `members` tells of the groups of events that several machines share."""
        actions: list[Action] = []
        for key, one in self.known.items():
            if not one.over and not one.approving and key in members:
                actions += self._lead(one, members[key], now)
        return actions

    def shared(self) -> list[Event]:
        """Events for which it matters how the other machines are."""
        return [
            one.event
            for one in self.known.values()
            if not one.over
            and not one.approving
            and not one.event.started
            and len(one.event.resources) > 1
            and self._config.group is not None
        ]

    # --- One event ---

    def _cares(self, event: Event) -> bool:
        return event.concerns(self._name) or any(
            hook.anyone and hook.fits(event) for hook in self._config.hooks
        )

    def _hooks(self, one: EventState, phase: Phase) -> list[HookSettings]:
        mine = one.event.concerns(self._name) or (phase is Phase.OVER and bool(one.hooks))
        return [
            hook
            for hook in self._config.hooks
            if hook.phase == phase and hook.fits(one.event) and (mine or hook.anyone)
        ]

    def _begin(self, one: EventState, phase: Phase, now: datetime) -> list[Action]:
        actions: list[Action] = []
        if phase is Phase.CHANGED:  # it may name us now, or begin earlier
            phase = _phase(one.event)
            actions += self._shortened(one)
        for hook in self._hooks(one, phase):
            if (phase, hook.name) not in one.hooks:
                actions += self._start(one, hook, phase, now)
        return [*actions, *self._settle(one, now)]

    def _shortened(self, one: EventState) -> list[Action]:
        if one.event.not_before is None:
            return []
        ends = one.event.not_before - self._config.margin
        return [
            ShortenHook(one.event.id, Phase.SCHEDULED, name, ends)
            for (phase, name), state in one.hooks.items()
            if phase == Phase.SCHEDULED and state == RUNNING
        ]

    def _start(
        self, one: EventState, hook: HookSettings, phase: Phase, now: datetime
    ) -> list[Action]:
        one.hooks[phase, hook.name] = RUNNING
        entry = AgentJournalEntry("begun", one.event.id.upper(), phase, hook.name)
        return [WriteNote(entry), self._run(one, hook, phase, now)]

    def _run(self, one: EventState, hook: HookSettings, phase: Phase, now: datetime) -> RunHook:
        ends = now + hook.timeout
        if phase is Phase.SCHEDULED and one.event.not_before and not one.event.started:
            ends = min(ends, one.event.not_before - self._config.margin)
        return RunHook(hook, phase, one.event, max(ends, now), one.cancelled)

    def _settle(self, one: EventState, now: datetime) -> list[Action]:
        """Whatever this event waits for no longer."""
        if one.over:
            return self._recover(one, now)
        if one.approving or one.event.started or not self._ready(one):
            return []
        if len(one.event.resources) > 1 and self._config.group is not None:
            if one.told:
                return []
            one.told = True
            return [SignalReady(one.event)]
        return self._approve(one)

    def _ready(self, one: EventState) -> bool:
        """All that has to be done before is done, and we may say so (IG1, IG3)."""
        if not self._may_approve(one):
            return False
        if self._config.approves(one.event) is ApprovalPolicy.AT_ONCE:
            return True
        needed = [hook for hook in self._hooks(one, Phase.SCHEDULED) if hook.required]
        states = [one.hooks.get((Phase.SCHEDULED, hook.name)) for hook in needed]
        return all(state == DONE for state in states)

    def _may_approve(self, one: EventState) -> bool:
        """IG3: it names us, and either nobody else or we have a way to speak for the others."""
        event = one.event
        alone = len(event.resources) == 1 or self._config.group is not None
        never = self._config.approves(event) is ApprovalPolicy.NEVER
        return event.concerns(self._name) and alone and not never

    def _approve(self, one: EventState) -> list[Action]:
        if not self._may_approve(one):
            return []
        one.approving = True
        return [
            WriteNote(AgentJournalEntry("approving", one.event.id.upper())),
            SendApproval(one.event),
        ]

    def _lead(self, one: EventState, members: GroupMembers, now: datetime) -> list[Action]:
        """Approve for the group, if that is ours to do and everybody is ready (G5)."""
        event = one.event
        if event.started or not self._may_approve(one):
            return []
        before = _before(event, self._name)
        if any(plain(name) in members.alive for name in before):
            return []  # somebody earlier in the list will do it
        living = [plain(name) for name in event.resources if plain(name) in members.alive]
        others = [name for name in living if name != plain(self._name)]
        everybody = self._ready(one) and all(name in members.ready for name in others)
        nearly = event.not_before is not None and now >= event.not_before - self._config.margin
        return self._approve(one) if everybody or (nearly and self._ready(one)) else []

    def _end(self, one: EventState, now: datetime, *, cancelled: bool) -> list[Action]:
        due = one.event.not_before
        # We may not have been there to see it begin: what was approved, or due, has happened.
        cancelled = cancelled and not one.approving and (due is None or now < due)
        one.over, one.cancelled = True, cancelled
        stops = [
            StopHook(one.event.id, Phase(phase), name)
            for (phase, name), state in one.hooks.items()
            if state == RUNNING
        ]
        entry = AgentJournalEntry("over", one.event.id.upper(), cancelled=cancelled)
        return [WriteNote(entry), *stops, *self._settle(one, now)]

    def _recover(self, one: EventState, now: datetime) -> list[Action]:
        """Once nothing prepares any more: recover, and then forget."""
        if RUNNING in one.hooks.values():
            return []
        actions: list[Action] = []
        for hook in self._hooks(one, Phase.OVER):
            if (Phase.OVER, hook.name) not in one.hooks:
                actions += self._start(one, hook, Phase.OVER, now)
        if actions:
            return actions
        key = one.event.id.upper()
        del self.known[key]
        forgotten = WriteNote(AgentJournalEntry("forgotten", key))
        if one.back is None or not self._cares(one.back):
            return [forgotten]
        new = self.known[key] = EventState(one.back)
        seen = WriteNote(AgentJournalEntry("seen", key, seen=new.event))
        return [forgotten, seen, *self._begin(new, _phase(new.event), now)]


def _phase(event: Event) -> Phase:
    """How far an event is that is listed."""
    return Phase.STARTED if event.started else Phase.SCHEDULED


def _before(event: Event, name: str) -> list[str]:
    """The machines that an event names before this one."""
    before: list[str] = []
    for one in event.resources:
        if plain(one) == plain(name):
            break
        before.append(one)
    return before


def utc(now: float) -> datetime:
    """A time of the clock as events have it."""
    return datetime.fromtimestamp(now, UTC)
