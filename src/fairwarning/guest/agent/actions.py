"""What the plan asks the agent to do, and what it is told of the group."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Union

from fairwarning.guest.agent.config import HookSettings
from fairwarning.guest.events import Event, Phase


@dataclass(frozen=True)
class AgentJournalEntry:
    """A line of the agent's journal."""

    step: str  # seen, booted, begun, done, ready, approving, approved, over, forgotten
    event: str
    phase: str = ""
    hook: str = ""
    failed: str = ""  # the failure of the hook, or why it is forgotten; empty: success
    cancelled: bool = False  # over without a start seen
    seen: Event | None = None
    kinds: frozenset[tuple[str, str]] = frozenset()  # other types and sources that it had before


@dataclass(frozen=True)
class WriteNote:
    """Write a journal entry durably before the next action."""

    entry: AgentJournalEntry


@dataclass(frozen=True)
class RunHook:
    """Run a hook for an event; it must end by the deadline (IG4)."""

    hook: HookSettings
    phase: Phase
    event: Event
    deadline: datetime
    cancelled: bool = False
    drill: bool = False  # the event is invented


@dataclass(frozen=True)
class ShortenHook:
    """Make the deadline of a running hook earlier."""

    event: str
    phase: Phase
    hook: str
    deadline: datetime


@dataclass(frozen=True)
class StopHook:
    """Stop a running hook of an event that is over."""

    event: str
    phase: Phase
    hook: str


@dataclass(frozen=True)
class SendApproval:
    """Approve an event."""

    event: Event


@dataclass(frozen=True)
class SignalState:
    """Tell the group that this machine is ready, or that a required hook of it failed."""

    event: Event
    ready: bool


@dataclass(frozen=True)
class ReportError:
    """Report an error in a decision about an event; the decision had no effect."""

    event: Event
    error: Exception


Action = Union[
    WriteNote,
    RunHook,
    ShortenHook,
    StopHook,
    SendApproval,
    SignalState,
    ReportError,
]


@dataclass(frozen=True)
class GroupMembers:
    """The state of the machines that an event names."""

    alive: frozenset[str]
    ready: frozenset[str]
    failed: frozenset[str] = frozenset()  # they said that a required hook failed


def event_key(action: Action) -> str:
    """Return the event that an action is about, as `AgentPlan.known` has it."""
    if isinstance(action, WriteNote):
        return action.entry.event
    event = action.event
    return (event if isinstance(event, str) else event.id).upper()
