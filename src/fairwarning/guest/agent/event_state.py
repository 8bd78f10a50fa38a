"""The agent's state for one event: its hooks, its approval and its end. Pure; `plan` decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from fairwarning.guest.events import Event
from fairwarning.guest.text_enum import StrEnum
from fairwarning.guest.watch import Phase

NO_TIME_LEFT = "no time left"
"""The failure of a hook that never began, and the first words if NotBefore cut it short."""
OUT_OF_TIME = "ran out of time"
"""The first words of the failure of a hook that was ended at its deadline."""
_ENDING = timedelta(seconds=3)  # a program is terminated a little before its deadline
FIRST_RETRY_SECONDS = 5.0  # after the first failure of a hook of phase over; doubled after each
LONGEST_RETRY_SECONDS = 300.0
LONG_AGO = datetime.fromtimestamp(0, timezone.utc)


class HookState(StrEnum):
    """What became of a hook of an event."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"  # it ran when the agent or the machine went down
    NO_TIME = "no time"  # NotBefore was too near: it never began, or was cut short
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class HookRetry:
    """A hook of phase over that failed, and how long to wait after that."""

    failed_at: datetime
    pause_seconds: float


@dataclass
class EventState:
    """The agent's state for one event."""

    event: Event
    hooks: dict[tuple[str, str], HookState] = field(default_factory=dict)  # by phase and name
    timeouts: dict[tuple[str, str], datetime] = field(default_factory=dict)  # of running hooks
    retries: dict[str, HookRetry] = field(default_factory=dict)  # hooks of phase over, by name
    approving: bool = False
    approved_at: datetime | None = None  # when the endpoint answered the approval
    refused: bool = False  # by the endpoint: do not approve again
    signalled: HookState | None = None  # to the group: DONE or FAILED
    failed_members: frozenset[str] = frozenset()  # of the group, by normalized name
    over: bool = False
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
        """Whether only failed hooks of phase over, which wait, keep the event."""
        return self.over and bool(self.retries) and not self.is_running(*Phase)

    def interrupted(self) -> list[tuple[Phase, str]]:
        """Return the phases and names of interrupted hooks."""
        return [
            (Phase(phase), name)
            for (phase, name), state in self.hooks.items()
            if state is HookState.INTERRUPTED
        ]

    def hook_ended(self, phase: str, name: str, failed: str, now: datetime) -> None:
        """Record the result of a hook."""
        state = HookState.FAILED if failed else HookState.DONE
        self.hooks[phase, name] = HookState.NO_TIME if failed.startswith(NO_TIME_LEFT) else state
        if phase != Phase.OVER:
            return
        previous = self.retries.pop(name, None)
        if failed:
            pause = 2 * previous.pause_seconds if previous else FIRST_RETRY_SECONDS
            self.retries[name] = HookRetry(now, min(pause, LONGEST_RETRY_SECONDS))

    def note_failures(self, failed: frozenset[str], ready: frozenset[str]) -> None:
        """Record which members of the group failed: until they are ready, also while silent."""
        self.failed_members = (self.failed_members | failed) - ready

    def was_cut_short(self, phase: str, name: str, failed: str, now: datetime) -> bool:
        """Whether a hook was ended before its own timeout, so by NotBefore."""
        timeout = self.timeouts.pop((phase, name), now)
        return failed.startswith(OUT_OF_TIME) and now < timeout - _ENDING

    def is_retry(self, phase: str, name: str) -> bool:
        """Whether a hook of phase over has failed, and not succeeded since."""
        return phase == Phase.OVER and name in self.retries

    def may_retry(self, name: str, now: datetime) -> bool:
        """Whether a failed hook of phase over has waited long enough."""
        retry = self.retries[name]
        return has_passed(retry.failed_at, retry.pause_seconds, now)


def has_passed(since: datetime, seconds: float, now: datetime) -> bool:
    """Whether so much time has passed, or the clock was moved back."""
    return not since <= now < since + timedelta(seconds=seconds)
