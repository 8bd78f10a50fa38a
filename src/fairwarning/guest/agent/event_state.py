"""The agent's state for one event: its hooks, its approval and its end. Pure; `plan` decides."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from fairwarning.guest.events import Event, EventSource, EventType, Phase
from fairwarning.guest.text_enum import StrEnum

NO_TIME_LEFT = "no time left"
"""The failure of a hook that never began, and the first words if NotBefore cut it short."""
OUT_OF_TIME = "ran out of time"
"""The first words of the failure of a hook that was ended at its deadline."""
_ENDING = timedelta(seconds=3)  # a program is terminated a little before its deadline
FIRST_RESEND_SECONDS = 2.0  # after an approval that failed; doubled after each
LONGEST_RESEND_SECONDS = 60.0  # after a refusal
LONGEST_OUTAGE_RESEND_SECONDS = 10.0  # without an answer: an outage may end at any time
FIRST_RETRY_SECONDS = 5.0  # after the first failure of a hook of phase over; doubled after each
LONGEST_RETRY_SECONDS = 300.0
_EARLIEST = datetime.min.replace(tzinfo=timezone.utc)
_LATEST = datetime.max.replace(tzinfo=timezone.utc)
LONG_AGO = datetime.fromtimestamp(0, timezone.utc)


class HookState(StrEnum):
    """What became of a hook of an event."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"  # it ran when the agent or the machine went down
    NO_TIME = "no time"  # NotBefore was too near: it never began, or was cut short
    DONE = "done"
    FAILED = "failed"


class ApprovalResult(StrEnum):
    """What became of the request that approves an event."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    FAILED = "failed"  # there was no answer, or one that may pass


@dataclass(frozen=True)
class Retry:
    """What failed, and how long to wait after that."""

    failed_at: datetime
    pause_seconds: float

    def is_due(self, now: datetime) -> bool:
        """Whether it has waited long enough."""
        return has_passed(self.failed_at, self.pause_seconds, now)


@dataclass
class EventState:
    """The agent's state for one event."""

    event: Event
    earlier_kinds: frozenset[tuple[str, str]] = frozenset()  # types and sources that it had before
    hooks: dict[tuple[str, str], HookState] = field(default_factory=dict)  # by phase and name
    timeouts: dict[tuple[str, str], datetime] = field(default_factory=dict)  # of running hooks
    had: dict[str, timedelta] = field(default_factory=dict)  # by hook of phase scheduled: its time
    retries: dict[str, Retry] = field(default_factory=dict)  # hooks of phase over, by name
    approving: bool = False
    approved_at: datetime | None = None  # when the endpoint answered the approval
    resend: Retry | None = None  # of our approval: the endpoint refused it, or did not answer
    refused: bool = False  # our approval, by the endpoint, which has not accepted it since
    signalled: HookState | None = None  # to the group: DONE or FAILED
    was_ready: bool = False  # as the group has been told: it may have approved the event
    failed_members: frozenset[str] = frozenset()  # of the group, by normalized name
    unready_members: tuple[str, ...] = ()  # when the event was approved for the group
    waits: bool = False  # until other events are undone
    over: bool = False
    boot: bool = False  # invented: the machine has booted, and what undoes preparations runs
    cancelled: bool = False
    reappeared: Event | None = None  # listed again after it was gone; handled after recovery

    @property
    def approval_pending(self) -> bool:
        """Whether the endpoint has not yet answered our approval."""
        return self.approving and self.approved_at is None and not (self.refused or self.over)

    def is_running(self, *phases: Phase) -> bool:
        """Whether a hook of these phases runs."""
        return any(
            state is HookState.RUNNING and phase in phases
            for (phase, _), state in self.hooks.items()
        )

    def is_waiting(self) -> bool:
        """Whether only hooks of phase over that wait keep the event."""
        return self.over and not self.boot and not self.is_running(*Phase)

    @property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """The types and sources that the event has had."""
        return self.earlier_kinds | {_kind(self.event)}

    def update(self, event: Event) -> bool:
        """Take over what a document says; return whether its type and source are new."""
        kinds = self.kinds
        self.event, self.earlier_kinds = event, kinds - {_kind(event)}
        return self.kinds != kinds

    def copy(self) -> EventState:
        """Return an independent copy."""
        hooks, timeouts, had = dict(self.hooks), dict(self.timeouts), dict(self.had)
        return replace(self, hooks=hooks, timeouts=timeouts, had=had, retries=dict(self.retries))

    def restore(self, saved: EventState) -> None:
        """Take over the values of a copy."""
        vars(self).update(vars(saved))

    def interrupted(self) -> list[tuple[Phase, str]]:
        """Return the phases and names of interrupted hooks."""
        return [
            (Phase(phase), name)
            for (phase, name), state in self.hooks.items()
            if state is HookState.INTERRUPTED
        ]

    def is_pending(self, phase: str, name: str) -> bool:
        """Whether a hook has not run to its end."""
        return self.hooks.get((phase, name)) in {None, HookState.INTERRUPTED}

    def hook_ended(self, phase: str, name: str, failed: str, now: datetime) -> None:
        """Record the result of a hook."""
        state = HookState.FAILED if failed else HookState.DONE
        self.hooks[phase, name] = HookState.NO_TIME if failed.startswith(NO_TIME_LEFT) else state
        if phase != Phase.OVER:
            return
        previous = self.retries.pop(name, None)
        if failed:
            pause = 2 * previous.pause_seconds if previous else FIRST_RETRY_SECONDS
            self.retries[name] = Retry(now, min(pause, LONGEST_RETRY_SECONDS))

    def approval_answered(self, now: datetime, result: ApprovalResult) -> None:
        """Record the answer to an approval. A refusal is not final: it may be a failure."""
        if result is ApprovalResult.ACCEPTED:
            self.approved_at, self.resend, self.refused = now, None, False
            return
        is_refused = result is ApprovalResult.REFUSED
        self.refused = is_refused and self.approved_at is None
        pause = 2 * self.resend.pause_seconds if self.resend else FIRST_RESEND_SECONDS
        longest = LONGEST_RESEND_SECONDS if is_refused else LONGEST_OUTAGE_RESEND_SECONDS
        self.resend = Retry(now, min(pause, longest))

    def was_cut_short(self, phase: str, name: str, failed: str, now: datetime) -> bool:
        """Whether a hook was ended before its own timeout, so by NotBefore."""
        timeout = self.timeouts.pop((phase, name), now)
        return failed.startswith(OUT_OF_TIME) and now < shift(timeout, -_ENDING)

    def is_retry(self, phase: str, name: str) -> bool:
        """Whether a hook of phase over has failed, and not succeeded since."""
        return phase == Phase.OVER and name in self.retries


def _kind(event: Event) -> tuple[str, str]:
    """Return the type and source of an event; empty for others than a hook can name."""
    is_known = isinstance(event.type, EventType), isinstance(event.source, EventSource)
    return event.type if is_known[0] else "", event.source if is_known[1] else ""


def has_passed(since: datetime, seconds: float, now: datetime) -> bool:
    """Whether so much time has passed, or the clock was moved back."""
    return not since <= now < shift(since, timedelta(seconds=seconds))


def shift(when: datetime, difference: timedelta) -> datetime:
    """Add to a date; the earliest and the latest possible date limit the result."""
    try:
        return when + difference
    except OverflowError:
        return _EARLIEST if difference < timedelta() else _LATEST
