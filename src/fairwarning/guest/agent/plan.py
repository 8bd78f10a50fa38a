"""The agent's decisions. Pure: documents, results and time in, actions out.

IG1: required hooks are done before an event is approved, and every preparation is undone by the
hooks of phase over, which run again until they succeed. IG2: a hook is journaled before and after
it runs; an interrupted hook runs again for the same event. IG4: hooks of phase scheduled end before
the event may start, or soon after they begin. IG5: only a document shows that an event is over.

One event is finished before the other: what undoes a preparation runs while the machine is prepared
for no other event, and the preparation for a new event waits for it. An error in a decision about
one event stays in that event (IB1): its state is as before, and the next document tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from fairwarning.guest.agent.actions import (
    Action,
    AgentJournalEntry,
    GroupMembers,
    ReportError,
    RunHook,
    SendApproval,
    ShortenHook,
    SignalState,
    StopHook,
    WriteNote,
)
from fairwarning.guest.agent.config import AgentConfig, HookSettings
from fairwarning.guest.agent.event_rules import EventRules
from fairwarning.guest.agent.event_state import (
    LONG_AGO,
    NO_TIME_LEFT,
    ApprovalResult,
    EventState,
    HookState,
    has_passed,
    shift,
)
from fairwarning.guest.events import (
    Change,
    Document,
    Event,
    Phase,
    changes,
    keep_skipped,
    normalize_name,
)

RESEND_SECONDS = 5.0  # an approval without effect is sent again after this time
LEAST_TIME = timedelta(seconds=5)  # for a hook that begins close to NotBefore or after it
MOST_WAITING_EVENTS = 100  # with hooks of phase over; a hook that always fails stays cheap


class AgentPlan:
    """Tracks every event that is relevant for the agent."""

    def __init__(self, config: AgentConfig, name: str) -> None:
        self._name = name
        self._rules = EventRules(config, name)
        self._last = Document()
        self._has_document = False
        self._strangers: list[str] = []  # events of other machines, which the journal still has
        self._failed: set[str] = set()  # events whose last step raised an error
        self.known: dict[str, EventState] = {}

    # --- Restart ---

    def restore(self, entries: Iterable[AgentJournalEntry]) -> None:
        """Restore the state from the journal, which has no event that is forgotten."""
        for entry in entries:
            if entry.seen is not None:
                known = self.known.setdefault(entry.event, EventState(entry.seen))
                known.event, known.earlier_kinds = entry.seen, entry.kinds
            if tracked := self.known.get(entry.event):
                self._apply(tracked, entry)
        for key, tracked in list(self.known.items()):
            has_acted = tracked.hooks or tracked.approving or tracked.boot
            if not has_acted and not tracked.event.concerns(self._name):  # of an earlier version
                self._strangers.append(key)
                del self.known[key]
        current = (tracked.event for tracked in self.known.values() if not tracked.over)
        self._last = Document(0, tuple(current))

    def _apply(self, tracked: EventState, entry: AgentJournalEntry) -> None:
        if entry.step == "begun":
            tracked.hooks[entry.phase, entry.hook] = HookState.INTERRUPTED
        elif entry.step == "done":
            tracked.hook_ended(entry.phase, entry.hook, entry.failed, LONG_AGO)
        elif entry.step == "ready":
            tracked.was_ready = True
        elif entry.step == "approving":
            tracked.approving = True
        elif entry.step == "approved":
            tracked.approved_at = LONG_AGO  # the time is not in the journal
        elif entry.step == "booted":
            tracked.over = tracked.boot = True
        elif entry.step == "over":
            tracked.over, tracked.cancelled = True, entry.cancelled

    def resume(self, document: Document, now: datetime, boot: Event | None = None) -> list[Action]:
        """Process the first document after a restart of the agent or the machine (G6).

        `boot` is the invented event of the machine's latest boot.
        """
        notes: list[Action] = [
            WriteNote(AgentJournalEntry("forgotten", key)) for key in self._strangers
        ]
        notes += self._boot(boot) if boot is not None else []
        unsent = [
            tracked
            for tracked in self.known.values()
            if tracked.approving and not tracked.approved_at
        ]
        for tracked in self.known.values():
            if not tracked.over:
                notes += self._update(tracked, document.find(tracked.event.id) or tracked.event)
        actions = [*notes, *self.read(document, now)]
        for tracked in unsent:
            tracked.approving = tracked.over or tracked.event.started  # else it is decided anew
        for tracked in list(self.known.values()):
            if not tracked.over:
                phase = _phase(tracked.event)
                actions += self._guard(tracked.event, self._begin_phase, tracked, phase, now)
        return actions

    def _boot(self, boot: Event) -> list[Action]:
        """Note a boot, if it is new; hooks of phase over with `boot` run for it once.

        A reimage loses the journal, and with it all other events to undo.
        """
        key = boot.id.upper()
        if key in self.known or not any(hook.boot for hook in self._rules.config.hooks):
            return []
        notes: list[Action] = []
        for earlier in [known for known, tracked in self.known.items() if tracked.boot]:
            del self.known[earlier]
            notes.append(WriteNote(AgentJournalEntry("forgotten", earlier)))
        self.known[key] = EventState(boot, over=True, boot=True)
        return [*notes, WriteNote(AgentJournalEntry("booted", key, seen=boot))]

    def _rerun_hooks(self, tracked: EventState, now: datetime) -> list[Action]:
        """Run interrupted hooks again, unless it is too late for their phase."""
        actions: list[Action] = []
        for phase, name in tracked.interrupted():
            hook = self._rules.config.hook(name)
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
        document = keep_skipped(document, self._last)  # which may be of the journal
        actions: list[Action] = []
        for change in self._changes(document):
            actions += self._guard(change.event, self._process_change, change, now)
        self._last, self._has_document = document, True
        for event in document.events:  # the order of its resources may differ: it says who leads
            tracked = self.known.get(event.id.upper())
            if tracked is not None and not tracked.over and event.id.upper() not in self._failed:
                actions += self._update(tracked, event)
        return [*actions, *self._continue(now)]

    def reconfigure(self, config: AgentConfig, now: datetime) -> list[Action]:
        """Go on with another configuration: current events get its hooks and its policy."""
        self._rules = EventRules(config, self._name)
        actions: list[Action] = []
        for tracked in list(self.known.values()):
            if self._has_document and not tracked.over:
                step = self._begin_phase
                actions += self._guard(tracked.event, step, tracked, Phase.CHANGED, now)
        return [*actions, *self._continue(now)]

    def _changes(self, document: Document) -> list[Change]:
        """Return what has changed, and events whose last step raised an error."""
        changed_events = list(changes(self._last, document))
        failed = self._failed - {change.event.id.upper() for change in changed_events}
        self._failed = set()
        for key in sorted(failed):
            event, tracked = document.find(key), self.known.get(key)
            if event is not None:
                changed_events.append(Change(Phase.CHANGED, event))
            elif tracked is not None and not tracked.over:
                gone = tracked.event
                changed_events.insert(0, Change(Phase.OVER, gone, cancelled=not gone.started))
        return changed_events

    def _process_change(self, change: Change, now: datetime) -> list[Action]:
        event, key = change.event, change.event.id.upper()
        tracked = self.known.get(key)
        if tracked is None:
            if change.phase is Phase.OVER or not event.concerns(self._name):
                return []
            tracked = self.known[key] = EventState(event)
        elif tracked.over:  # recovery must end before it begins again
            tracked.reappeared = None if change.phase is Phase.OVER else event
            return []
        if change.phase is Phase.OVER:
            return self._end_event(tracked, now, cancelled=change.cancelled)
        tracked.update(event)
        return [_note_seen(tracked), *self._begin_phase(tracked, change.phase, now)]

    def _update(self, tracked: EventState, event: Event) -> list[Action]:
        """Take over an event that may have changed in a way that begins nothing."""
        return [_note_seen(tracked)] if tracked.update(event) else []

    def due(self, now: datetime) -> list[Action]:
        """Do what only needs time to pass; called every few seconds.

        An event that was approved and has not started is approved again, in case that was lost.
        Hooks that a wrong clock cut short, and failed hooks of phase over, are run again.
        """
        actions: list[Action] = []
        for tracked in list(self.known.values()):
            if not tracked.over and self._has_document:
                for step in (self._begin_again, self._approve_again):
                    actions += self._guard(tracked.event, step, tracked, now)
        return [*actions, *self._continue(now), *self._give_up_oldest(now)]

    def _give_up_oldest(self, now: datetime) -> list[Action]:
        """Forget the oldest events with hooks of phase over that wait, if there are too many."""
        actions: list[Action] = []
        waiting = [tracked for tracked in self.known.values() if tracked.is_waiting()]
        for tracked in waiting[: max(0, len(waiting) - MOST_WAITING_EVENTS)]:
            actions += self._forget(tracked, now, "too many events wait for hooks of phase over")
        return actions

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
        next_step = self._guard(tracked.event, self._advance, tracked, now)
        return [*notes, *next_step, *self._continue(now)]

    def approved(self, event: str, now: datetime, result: ApprovalResult) -> list[Action]:
        """Process the answer to an approval, unless the event has vanished and come back since."""
        tracked = self.known.get(event.upper())
        if tracked is None or not tracked.approving:
            return []
        first = tracked.approved_at is None and result is ApprovalResult.ACCEPTED
        tracked.approval_answered(now, result)
        return [WriteNote(AgentJournalEntry("approved", event.upper()))] if first else []

    def tick(self, members: Mapping[str, GroupMembers], now: datetime) -> list[Action]:
        """Process the state of the groups, by event, and the passing of time."""
        actions: list[Action] = []
        for key, tracked in self.known.items():
            if not tracked.over and not tracked.approving and key in members:
                # A member that failed has failed until it is ready, also while it is silent.
                failed = tracked.failed_members | members[key].failed
                tracked.failed_members = failed - members[key].ready
                step = self._approve_as_leader
                actions += self._guard(tracked.event, step, tracked, members[key], now)
        return actions

    def shared(self) -> list[Event]:
        """Return the events that need the state of the group."""
        return [
            tracked.event
            for tracked in self.known.values()
            if not tracked.over
            and not tracked.approving
            and not tracked.event.started
            and self._rules.is_shared(tracked.event)
        ]

    @property
    def hooks_to_retry(self) -> int:
        """How many hooks of phase over have failed and not succeeded since."""
        return sum(
            hook.name in tracked.retries
            for tracked in self.known.values()
            for hook in self._rules.hooks(tracked, Phase.OVER)
        )

    # --- All events ---

    def _guard(
        self,
        event: Event,
        step: Callable[..., list[Action]],
        *arguments: Any,  # noqa: ANN401  (those of the step)
    ) -> list[Action]:
        """Take a step for one event; after an error its state is as before (IB1)."""
        key = event.id.upper()
        tracked = self.known.get(key)
        saved = tracked.copy() if tracked else None
        try:
            return step(*arguments)
        except Exception as error:  # noqa: BLE001  (whatever it is, it concerns this event only)
            if tracked is None or saved is None:
                self.known.pop(key, None)
            else:
                tracked.restore(saved)
                self.known[key] = tracked
            self._failed.add(key)
            return [ReportError(event, error)]

    def _continue(self, now: datetime) -> list[Action]:
        """Go on with events that may have waited for others: first with those that are over."""
        actions: list[Action] = []
        over = [tracked for tracked in self.known.values() if tracked.over]
        for tracked in sorted(over, key=lambda tracked: bool(tracked.retries)):
            actions += self._guard(tracked.event, self._recover, tracked, now)
        for tracked in list(self.known.values()):
            if tracked.waits and self._may_begin():
                phase = _phase(tracked.event)
                actions += self._guard(tracked.event, self._begin_phase, tracked, phase, now)
        return actions

    def _is_prepared(self) -> bool:
        """Whether the machine is prepared for an event, which hooks of phase over would undo."""
        return any(map(self._rules.is_prepared, self.known.values()))

    def _may_begin(self) -> bool:
        """Whether hooks that prepare the machine may begin: nothing would undo what they do."""
        return self._is_prepared() or not any(map(self._rules.is_recovering, self.known.values()))

    # --- Preparation ---

    def _begin_phase(self, tracked: EventState, phase: Phase, now: datetime) -> list[Action]:
        tracked.waits = not self._may_begin()
        if tracked.waits:
            return self._shorten_recovery(now)
        actions = self._rerun_hooks(tracked, now)
        if phase is Phase.CHANGED:  # it may name this machine now, or start earlier
            phase = _phase(tracked.event)
            actions += self._shorten_hooks(tracked, now)
        for hook in self._rules.hooks(tracked, phase):
            state = tracked.hooks.get((phase, hook.name))
            if state is HookState.NO_TIME and self._has_time(tracked, now):
                actions += self._start_hook(tracked, hook, phase, now)
        return [*actions, *self._advance(tracked, now)]

    def _has_time(self, tracked: EventState, now: datetime) -> bool:
        """Whether a hook that begins now can end before the event may start."""
        event = tracked.event
        has_notice = event.not_before is None or self._time_left(event.not_before, now) > _NO_TIME
        return has_notice and not event.started

    def _time_left(self, not_before: datetime, now: datetime) -> timedelta:
        """Return the time until an event may start, less the margin."""
        return not_before - now - self._rules.config.margin

    def _shorten_hooks(self, tracked: EventState, now: datetime) -> list[Action]:
        if tracked.event.not_before is None:
            return []
        time = max(self._time_left(tracked.event.not_before, now), LEAST_TIME)
        running = [
            name
            for (phase, name), state in tracked.hooks.items()
            if phase == Phase.SCHEDULED and state is HookState.RUNNING
        ]
        for name in running:
            tracked.had[name] = min(time, tracked.had.get(name, time))
        deadline = shift(now, time)
        return [ShortenHook(tracked.event.id, Phase.SCHEDULED, name, deadline) for name in running]

    def _begin_again(self, tracked: EventState, now: datetime) -> list[Action]:
        """Begin hooks again that had too little time only by a clock that was wrong."""
        event = tracked.event
        if tracked.waits or event.started or event.not_before is None:
            return []
        actions: list[Action] = []
        left = self._time_left(event.not_before, now)
        for hook in self._rules.hooks(tracked, Phase.SCHEDULED):
            state = tracked.hooks.get((Phase.SCHEDULED, hook.name))
            had = tracked.had.get(hook.name, hook.timeout)
            is_cut_short = state is HookState.NO_TIME and had < hook.timeout
            if is_cut_short and left >= min(2 * had, hook.timeout):
                actions += self._start_hook(tracked, hook, Phase.SCHEDULED, now)
        return actions

    def _start_hook(
        self, tracked: EventState, hook: HookSettings, phase: Phase, now: datetime
    ) -> list[Action]:
        is_retry = tracked.is_retry(phase, hook.name)
        tracked.hooks[phase, hook.name] = HookState.RUNNING
        tracked.timeouts[phase, hook.name] = shift(now, hook.timeout)
        entry = AgentJournalEntry("begun", tracked.event.id.upper(), phase, hook.name)
        notes = [] if is_retry else [WriteNote(entry)]  # the journal has its first failure
        return [*notes, self._run_hook(tracked, hook, phase, now)]

    def _run_hook(
        self, tracked: EventState, hook: HookSettings, phase: Phase, now: datetime
    ) -> RunHook:
        event, time = tracked.event, hook.timeout
        if phase is Phase.SCHEDULED and event.not_before and not event.started:
            time = min(time, max(self._time_left(event.not_before, now), LEAST_TIME))
        if phase is Phase.SCHEDULED:
            tracked.had[hook.name] = time
        if phase is Phase.OVER:
            time = min(time, self._time_to_recover(now))
        return RunHook(hook, phase, event, shift(now, time), tracked.cancelled)

    def _advance(self, tracked: EventState, now: datetime) -> list[Action]:
        """Take the next step for an event, if nothing blocks it."""
        if tracked.over:
            return self._recover(tracked, now)
        actions = self._start_next_hooks(tracked, now)
        if tracked.approving or tracked.event.started:
            return actions
        if self._rules.is_shared(tracked.event):
            actions += self._report_readiness(tracked)
        elif self._rules.is_ready(tracked):
            actions += self._approve(tracked)
        return actions

    def _start_next_hooks(self, tracked: EventState, now: datetime) -> list[Action]:
        """Begin the hooks whose turn it is."""
        actions: list[Action] = []
        phase = _phase(tracked.event)
        for hook in self._rules.hooks(tracked, phase):
            is_new = (phase, hook.name) not in tracked.hooks
            if is_new and not tracked.waits and self._rules.may_follow(tracked, hook):
                actions += self._start_hook(tracked, hook, phase, now)
        return actions

    # --- Approval ---

    def _report_readiness(self, tracked: EventState) -> list[Action]:
        """Tell the group once that this machine is ready, or that it will not be."""
        is_ready = self._rules.is_ready(tracked)
        state = HookState.DONE if is_ready else HookState.FAILED
        if tracked.signalled is state or not (is_ready or self._rules.has_failed(tracked)):
            return []
        tracked.signalled = state
        signal = SignalState(tracked.event, ready=is_ready)
        if tracked.was_ready or not is_ready:
            return [signal]
        tracked.was_ready = True
        return [WriteNote(AgentJournalEntry("ready", tracked.event.id.upper())), signal]

    def _approve(self, tracked: EventState) -> list[Action]:
        tracked.approving = True
        return [
            WriteNote(AgentJournalEntry("approving", tracked.event.id.upper())),
            SendApproval(tracked.event),
        ]

    def _approve_again(self, tracked: EventState, now: datetime) -> list[Action]:
        """Repeat an approval that had no effect, or that failed while there is time."""
        is_approved = tracked.approving and not tracked.event.started
        if not is_approved or not self._rules.is_ready(tracked):  # a reload may add hooks
            return []
        if tracked.resend is not None:
            is_late = tracked.refused and not self._has_time(tracked, now)
            if is_late or not tracked.resend.is_due(now):
                return []
            tracked.resend = replace(tracked.resend, failed_at=now)
        elif tracked.approved_at is None or not has_passed(
            tracked.approved_at, RESEND_SECONDS, now
        ):
            return []
        else:
            tracked.approved_at = now
        return [SendApproval(tracked.event)]

    def _approve_as_leader(
        self, tracked: EventState, members: GroupMembers, now: datetime
    ) -> list[Action]:
        """Approve for the group if this machine leads it and all other machines are ready (G5).

        Shortly before NotBefore it approves for silent machines too. For one that said that a
        required hook failed, it approves only if the configuration allows it, and not earlier.
        """
        event, group = tracked.event, self._rules.config.group
        if event.started or group is None or not self._rules.is_ready(tracked):
            return []
        if not members.alive.isdisjoint(self._rules.earlier_machines(event)):
            return []  # the first living machine in the list leads
        others = self._rules.other_machines(event)
        failed = tracked.failed_members.intersection(map(normalize_name, others))
        if failed and not group.approve_over_failures:
            return []
        unready = tuple(name for name in others if normalize_name(name) not in members.ready)
        if unready and self._has_time(tracked, now):
            return []
        tracked.unready_members = unready
        return self._approve(tracked)

    # --- Recovery ---

    def _end_event(self, tracked: EventState, now: datetime, *, cancelled: bool) -> list[Action]:
        not_before = tracked.event.not_before
        # The agent may have missed the start: an event that was approved or due has taken place.
        may_be_approved = tracked.approving or tracked.was_ready
        cancelled = cancelled and not may_be_approved and (not_before is None or now < not_before)
        tracked.over, tracked.cancelled, tracked.waits = True, cancelled, False
        stops = [
            StopHook(tracked.event.id, Phase(phase), name)
            for (phase, name), state in tracked.hooks.items()
            if state is HookState.RUNNING
        ]
        entry = AgentJournalEntry("over", tracked.event.id.upper(), cancelled=cancelled)
        return [WriteNote(entry), *stops]

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
        hooks = self._rules.hooks(tracked, Phase.OVER)
        for hook in hooks:
            if self._may_undo(tracked, hook, now):
                actions += self._start_hook(tracked, hook, Phase.OVER, now)
        is_waiting = tracked.reappeared is None and any(
            hook.name in tracked.retries or tracked.is_pending(Phase.OVER, hook.name)
            for hook in hooks
        )
        if is_waiting or tracked.boot or tracked.is_running(Phase.OVER):
            return actions  # a boot is known until the next one
        return [*actions, *self._forget(tracked, now)]

    def _may_undo(self, tracked: EventState, hook: HookSettings, now: datetime) -> bool:
        """Whether a hook of phase over may begin, for the first time or again.

        It waits while the machine is prepared for another event, which the hook would undo.
        """
        retry = tracked.retries.get(hook.name)
        is_turn = retry is not None or tracked.is_pending(Phase.OVER, hook.name)
        if not is_turn or not self._rules.may_follow(tracked, hook):
            return False
        events, preparing = self.known.values(), (Phase.SCHEDULED, Phase.STARTED)
        # A hook that prepares the machine may run although its event is over.
        if self._is_prepared() or any(other.is_running(*preparing) for other in events):
            return False
        if retry is None and not tracked.boot:
            return True
        # It does not run beside itself, which many events would cause.
        states = (other.hooks.get((Phase.OVER, hook.name)) for other in events)
        is_due = tracked.reappeared is None and (retry is None or retry.is_due(now))
        return is_due and HookState.RUNNING not in states

    def _time_to_recover(self, now: datetime) -> timedelta:
        """Return how long hooks of phase over may run: half the notice of an event that waits."""
        return min(
            (
                max(self._time_left(tracked.event.not_before, now) / 2, LEAST_TIME)
                for tracked in self.known.values()
                if tracked.waits and tracked.event.not_before and not tracked.event.started
            ),
            default=timedelta.max,
        )

    def _shorten_recovery(self, now: datetime) -> list[Action]:
        deadline = shift(now, self._time_to_recover(now))
        return [
            ShortenHook(tracked.event.id, Phase.OVER, name, deadline)
            for tracked in self.known.values()
            for (phase, name), state in tracked.hooks.items()
            if phase == Phase.OVER and state is HookState.RUNNING
        ]

    def _forget(self, tracked: EventState, now: datetime, failed: str = "") -> list[Action]:
        """Forget an event; begin with it anew if it is listed again."""
        key = tracked.event.id.upper()
        del self.known[key]
        forgotten = WriteNote(AgentJournalEntry("forgotten", key, failed=failed))
        if tracked.reappeared is None or not tracked.reappeared.concerns(self._name):
            return [forgotten]
        new = self.known[key] = EventState(tracked.reappeared)
        return [forgotten, _note_seen(new), *self._begin_phase(new, _phase(new.event), now)]


_NO_TIME = timedelta()


def _note_seen(tracked: EventState) -> WriteNote:
    event = tracked.event
    entry = AgentJournalEntry("seen", event.id.upper(), seen=event, kinds=tracked.earlier_kinds)
    return WriteNote(entry)


def _phase(event: Event) -> Phase:
    """Return the phase of a listed event."""
    return Phase.STARTED if event.started else Phase.SCHEDULED
