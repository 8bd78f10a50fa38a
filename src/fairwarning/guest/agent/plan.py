"""The agent's decisions. Pure: documents, results and time in, actions out.

IG1: required hooks are done before an event is approved, and every preparation is undone by the
hooks of phase over, which run again until they succeed. IG2: a hook is journaled before and after
it runs; an interrupted hook runs again for the same event. IG3: an agent approves only for its own
machine, or as the leader of a group. IG4: hooks of phase scheduled end before the event may start,
or soon after they begin. IG5: only a document shows that an event is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from fairwarning.guest.agent.actions import (
    Action,
    AgentJournalEntry,
    GroupMembers,
    RunHook,
    SendApproval,
    ShortenHook,
    SignalFailed,
    SignalReady,
    StopHook,
    WriteNote,
)
from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, HookSettings
from fairwarning.guest.agent.event_state import (
    LONG_AGO,
    NO_TIME_LEFT,
    EventState,
    HookState,
    has_passed,
)
from fairwarning.guest.events import Document, Event, normalize_name
from fairwarning.guest.watch import Phase, changes

RESEND_SECONDS = 5.0  # an approval without effect is sent again after this time
LEAST_TIME = timedelta(seconds=5)  # for a hook that begins close to NotBefore or after it
MOST_WAITING_EVENTS = 100  # with failed hooks of phase over; a hook that always fails stays cheap


class AgentPlan:
    """Tracks every event that is relevant for the agent."""

    def __init__(self, config: AgentConfig, name: str) -> None:
        self._config = config
        self._name = name
        self._last = Document()
        self._has_document = False
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
        if entry.step == "begun":
            tracked.hooks[entry.phase, entry.hook] = HookState.INTERRUPTED
        elif entry.step == "done":
            tracked.hook_ended(entry.phase, entry.hook, entry.failed, LONG_AGO)
        elif entry.step == "approving":
            tracked.approving = True
        elif entry.step == "approved":
            tracked.approved_at = LONG_AGO  # the time is not in the journal
        elif entry.step == "over":
            tracked.over, tracked.cancelled = True, entry.cancelled
        elif entry.step == "forgotten":
            del self.known[entry.event]

    def resume(self, document: Document, now: datetime) -> list[Action]:
        """Process the first document after a restart of the agent or the machine (G6)."""
        unsent = [
            tracked
            for tracked in self.known.values()
            if tracked.approving and not tracked.approved_at
        ]
        for tracked in self.known.values():
            if not tracked.over:
                tracked.event = document.find(tracked.event.id) or tracked.event
        actions = self.read(document, now)
        for tracked in list(self.known.values()):
            if tracked.over:
                actions += self._recover(tracked, now)
                continue
            actions += self._rerun_hooks(tracked, now)
            actions += self._begin_phase(tracked, _phase(tracked.event), now)
        for tracked in unsent:
            if not tracked.over and not tracked.event.started:
                tracked.approving = self._may_approve(tracked)
                actions += [SendApproval(tracked.event)] if tracked.approving else []
        return actions

    def _rerun_hooks(self, tracked: EventState, now: datetime) -> list[Action]:
        """Run interrupted hooks again, unless it is too late for their phase."""
        actions: list[Action] = []
        for phase, name in tracked.interrupted():
            hook = self._config.hook(name)
            late = phase is Phase.SCHEDULED and tracked.event.started
            if hook is None or hook.phase != phase or late:
                actions += self._give_up_hook(tracked, phase, name, now)
            else:
                actions += self._start_hook(tracked, hook, phase, now)
        return actions

    def _give_up_hook(
        self, tracked: EventState, phase: Phase, name: str, now: datetime
    ) -> list[Action]:
        failed = "was interrupted"
        tracked.hook_ended(phase, name, failed, now)
        key = tracked.event.id.upper()
        return [WriteNote(AgentJournalEntry("done", key, phase, name, failed))]

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
                actions += self._recover(tracked, now)
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
        self._last, self._has_document = document, True
        return actions

    def due(self, now: datetime) -> list[Action]:
        """Do what only needs time to pass; called every few seconds.

        An event that was approved and has not started is approved again, in case that was lost.
        Failed hooks of phase over are run again.
        """
        actions: list[Action] = []
        for tracked in list(self.known.values()):
            if tracked.over:
                actions += self._recover(tracked, now)
            elif self._has_document and self._is_unanswered(tracked, now):
                tracked.approved_at = now
                actions += [SendApproval(tracked.event)] if self._may_approve(tracked) else []
        return [*actions, *self._give_up_oldest(now)]

    def _give_up_oldest(self, now: datetime) -> list[Action]:
        """Forget the oldest events with failed hooks of phase over, if there are too many."""
        actions: list[Action] = []
        waiting = [tracked for tracked in self.known.values() if tracked.is_waiting()]
        for tracked in waiting[: max(0, len(waiting) - MOST_WAITING_EVENTS)]:
            actions += self._forget(tracked, now, "too many events wait for hooks that failed")
        return actions

    def _is_unanswered(self, tracked: EventState, now: datetime) -> bool:
        if tracked.approved_at is None or tracked.refused or tracked.event.started:
            return False
        return has_passed(tracked.approved_at, RESEND_SECONDS, now)

    def done(self, event: str, phase: Phase, hook: str, failed: str, now: datetime) -> list[Action]:
        """Process the end of a hook."""
        tracked = self.known.get(event.upper())
        if tracked is None or tracked.hooks.get((phase, hook)) is not HookState.RUNNING:
            return []
        if tracked.was_cut_short(phase, hook, failed, now):
            failed = f"{NO_TIME_LEFT}: {failed}"
        failed_again = failed and tracked.is_retry(phase, hook)
        tracked.hook_ended(phase, hook, failed, now)
        entry = AgentJournalEntry("done", event.upper(), phase, hook, failed)
        notes = [] if failed_again else [WriteNote(entry)]
        return [*notes, *self._advance(tracked, now)]

    def approved(self, event: str, now: datetime, *, gone: bool = False) -> list[Action]:
        """Process an accepted approval, or with `gone` a refused one."""
        tracked = self.known.get(event.upper())
        if tracked is None:
            return []
        first = tracked.approved_at is None
        tracked.approved_at, tracked.refused = now, tracked.refused or gone
        return (
            [WriteNote(AgentJournalEntry("approved", event.upper()))] if first and not gone else []
        )

    def tick(self, members: Mapping[str, GroupMembers], now: datetime) -> list[Action]:
        """Process the state of the groups, by event, and the passing of time."""
        actions: list[Action] = []
        for key, tracked in self.known.items():
            if not tracked.over and not tracked.approving and key in members:
                tracked.note_failures(members[key].failed, members[key].ready)
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
            and self._is_shared(tracked.event)
        ]

    @property
    def hooks_to_retry(self) -> int:
        """How many hooks of phase over have failed and not succeeded since."""
        return sum(
            hook.name in tracked.retries
            for tracked in self.known.values()
            for hook in self._hooks(tracked, Phase.OVER)
        )

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
            actions += self._shorten_hooks(tracked, now)
        for hook in self._hooks(tracked, phase):
            state = tracked.hooks.get((phase, hook.name))
            again = state is HookState.NO_TIME and self._has_time(tracked, now)
            if state is None or again:
                actions += self._start_hook(tracked, hook, phase, now)
        return [*actions, *self._advance(tracked, now)]

    def _has_time(self, tracked: EventState, now: datetime) -> bool:
        """Whether a hook that begins now can end before the event may start."""
        event = tracked.event
        has_notice = event.not_before is None or event.not_before - self._config.margin > now
        return has_notice and not event.started

    def _shorten_hooks(self, tracked: EventState, now: datetime) -> list[Action]:
        if tracked.event.not_before is None:
            return []
        deadline = max(tracked.event.not_before - self._config.margin, now + LEAST_TIME)
        return [
            ShortenHook(tracked.event.id, Phase.SCHEDULED, name, deadline)
            for (phase, name), state in tracked.hooks.items()
            if phase == Phase.SCHEDULED and state is HookState.RUNNING
        ]

    def _start_hook(
        self, tracked: EventState, hook: HookSettings, phase: Phase, now: datetime
    ) -> list[Action]:
        is_retry = tracked.is_retry(phase, hook.name)
        tracked.hooks[phase, hook.name] = HookState.RUNNING
        tracked.timeouts[phase, hook.name] = now + hook.timeout
        entry = AgentJournalEntry("begun", tracked.event.id.upper(), phase, hook.name)
        notes = [] if is_retry else [WriteNote(entry)]  # the journal has its first failure
        return [*notes, self._run_hook(tracked, hook, phase, now)]

    def _run_hook(
        self, tracked: EventState, hook: HookSettings, phase: Phase, now: datetime
    ) -> RunHook:
        deadline = now + hook.timeout
        if phase is Phase.SCHEDULED and tracked.event.not_before and not tracked.event.started:
            latest = max(tracked.event.not_before - self._config.margin, now + LEAST_TIME)
            deadline = min(deadline, latest)
        return RunHook(hook, phase, tracked.event, deadline, tracked.cancelled)

    def _advance(self, tracked: EventState, now: datetime) -> list[Action]:
        """Take the next step for an event, if nothing blocks it."""
        if tracked.over:
            return self._recover(tracked, now)
        if tracked.approving or tracked.event.started:
            return []
        if self._is_shared(tracked.event):
            return self._report_readiness(tracked)
        return self._approve(tracked) if self._is_ready(tracked) else []

    def _is_shared(self, event: Event) -> bool:
        """Whether several machines have to agree on the event."""
        return len(event.resources) > 1 and self._config.group is not None

    def _report_readiness(self, tracked: EventState) -> list[Action]:
        """Tell the group once that this machine is ready, or that it will not be."""
        is_ready = self._is_ready(tracked)
        state = HookState.DONE if is_ready else HookState.FAILED
        if tracked.signalled is state or not (is_ready or self._has_failed(tracked)):
            return []
        tracked.signalled = state
        return [SignalReady(tracked.event) if is_ready else SignalFailed(tracked.event)]

    def _is_ready(self, tracked: EventState) -> bool:
        """Whether required hooks are done and this agent may approve (IG1, IG3)."""
        if not self._may_approve(tracked):
            return False
        if self._config.approves(tracked.event) is ApprovalPolicy.AT_ONCE:
            return True
        return all(state is HookState.DONE for state in self._required_states(tracked))

    def _has_failed(self, tracked: EventState) -> bool:
        """Whether a required hook has failed on this machine."""
        if self._config.approves(tracked.event) is ApprovalPolicy.AT_ONCE:
            return False
        failed = {HookState.FAILED, HookState.NO_TIME}
        return not failed.isdisjoint(self._required_states(tracked))

    def _required_states(self, tracked: EventState) -> list[HookState | None]:
        hooks = self._hooks(tracked, Phase.SCHEDULED)
        required = [hook for hook in hooks if hook.required]
        return [tracked.hooks.get((Phase.SCHEDULED, hook.name)) for hook in required]

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
        """Approve for the group if this machine leads it and all members are ready (G5).

        Shortly before NotBefore it approves for silent members too. For a member that said that a
        required hook failed, it approves only if the configuration allows it, and not earlier.
        """
        event, group = tracked.event, self._config.group
        if event.started or group is None or not self._is_ready(tracked):
            return []
        earlier = _earlier_resources(event, self._name)
        if any(normalize_name(name) in members.alive for name in earlier):
            return []  # the first living machine in the list leads
        own_name = normalize_name(self._name)
        others = [normalize_name(name) for name in event.resources]
        others = [name for name in others if name != own_name]
        if not group.approve_over_failures and not tracked.failed_members.isdisjoint(others):
            return []
        all_ready = all(name in members.ready for name in others if name in members.alive)
        due = event.not_before is not None and now >= event.not_before - self._config.margin
        return self._approve(tracked) if all_ready or due else []

    def _end_event(self, tracked: EventState, now: datetime, *, cancelled: bool) -> list[Action]:
        not_before = tracked.event.not_before
        # The agent may have missed the start: an event that was approved or due has taken place.
        cancelled = cancelled and not tracked.approving and (not_before is None or now < not_before)
        tracked.over, tracked.cancelled = True, cancelled
        stops = [
            StopHook(tracked.event.id, Phase(phase), name)
            for (phase, name), state in tracked.hooks.items()
            if state is HookState.RUNNING
        ]
        entry = AgentJournalEntry("over", tracked.event.id.upper(), cancelled=cancelled)
        return [WriteNote(entry), *stops, *self._advance(tracked, now)]

    def _recover(self, tracked: EventState, now: datetime) -> list[Action]:
        """Run the hooks of phase over once no other hook runs, then forget the event.

        A hook that fails runs again until it succeeds, or until the event is listed again.
        """
        actions: list[Action] = []
        for phase, name in tracked.interrupted():
            if phase is not Phase.OVER:
                actions += self._give_up_hook(tracked, phase, name, now)
        if tracked.is_running(Phase.SCHEDULED, Phase.STARTED):
            return actions
        hooks = self._hooks(tracked, Phase.OVER)
        for hook in hooks:
            if self._may_undo(tracked, hook, now):
                actions += self._start_hook(tracked, hook, Phase.OVER, now)
        is_waiting = tracked.reappeared is None and any(
            hook.name in tracked.retries for hook in hooks
        )
        if is_waiting or tracked.is_running(Phase.OVER):
            return actions
        return [*actions, *self._forget(tracked, now)]

    def _may_undo(self, tracked: EventState, hook: HookSettings, now: datetime) -> bool:
        """Whether a hook of phase over may begin, for the first time or again.

        What failed is not tried again while the machine is prepared for another event, which the
        hook would undo.
        """
        state = tracked.hooks.get((Phase.OVER, hook.name))
        if hook.name not in tracked.retries:
            return state in {None, HookState.INTERRUPTED}
        runs = HookState.RUNNING in (
            other.hooks.get((Phase.OVER, hook.name)) for other in self.known.values()
        )
        if runs or tracked.reappeared is not None:
            return False  # it does not run beside itself, which many events would cause
        is_prepared = any(
            not other.over
            and other.event.concerns(self._name)
            and any(self._required_states(other))
            for other in self.known.values()
        )
        return not is_prepared and tracked.may_retry(hook.name, now)

    def _forget(self, tracked: EventState, now: datetime, failed: str = "") -> list[Action]:
        """Forget an event; begin with it anew if it is listed again."""
        key = tracked.event.id.upper()
        del self.known[key]
        forgotten = WriteNote(AgentJournalEntry("forgotten", key, failed=failed))
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
