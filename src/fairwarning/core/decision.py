"""What comes out of a decision: facts for the journal, impacts for drivers, messages for others."""

import re
from enum import StrEnum

from fairwarning.core.commands import Command
from fairwarning.core.model import Entity, Event, EventStatus, EventType, Impact, Scope, Source
from fairwarning.core.record import short_record
from fairwarning.core.times import iso, parse_date


class FactType(StrEnum):
    """What the journal tells: past tense, a line for each change (IC7)."""

    SCOPE_CREATED = "ScopeCreated"
    SCOPE_REMOVED = "ScopeRemoved"
    CONFIGURED = "Configured"
    MACHINE_ADDED = "MachineAdded"
    MACHINE_CHANGED = "MachineChanged"
    MACHINE_REMOVED = "MachineRemoved"
    ENABLED = "Enabled"
    DISABLED = "Disabled"
    SCHEDULED = "Scheduled"
    TOLD = "Told"
    APPROVED = "Approved"
    PEER_APPROVED = "PeerApproved"
    STARTED = "Started"
    CANCELLED = "Cancelled"
    LAPSED = "Lapsed"
    ENDED = "Ended"
    BEGUN = "ImpactBegun"
    CARRIED_OUT = "ImpactCarriedOut"
    FAILED = "ImpactFailed"
    SET_CREATED = "SetCreated"
    SET_CHANGED = "SetChanged"
    SET_REMOVED = "SetRemoved"
    RESOURCE_WRITTEN = "ResourceWritten"
    RESOURCE_REMOVED = "ResourceRemoved"
    OPERATION_ACCEPTED = "OperationAccepted"
    OPERATION_ENDED = "OperationEnded"
    ROLLOUT_STARTED = "RolloutStarted"
    ROLLOUT_PAUSED = "RolloutPaused"
    ROLLOUT_RESUMED = "RolloutResumed"
    ROLLOUT_ABORTED = "RolloutAborted"
    ROLLOUT_ENDED = "RolloutEnded"
    STEP_BEGUN = "StepBegun"
    STEP_DEFERRED = "StepDeferred"
    STEP_ENDED = "StepEnded"


EVENT_ENDED = frozenset({FactType.CANCELLED, FactType.LAPSED, FactType.ENDED})
"""After these an event is gone."""


@short_record
class Fact:
    """One thing that came to pass, for the journal."""

    did: FactType
    event: str = ""
    machine: str = ""
    operation: str = ""
    why: str = ""


def announcement(event: Event) -> str:
    """What the journal says of an event when it comes, for whoever reads it when it is gone."""
    when = f"not before {iso(event.not_before)}"
    if event.status is EventStatus.STARTED:
        when = "without notice"
    return f"{event.type} by {event.source}, {when}"


def read_announcement(why: str) -> tuple[EventType, Source, int | None] | None:
    """Type, source and NotBefore (None: no notice) of an event that was journaled so."""
    found = _ANNOUNCEMENT.fullmatch(why)
    if found is None:
        return None
    kind, source, date = found.groups()
    return EventType(kind), Source(source), parse_date(date) if date else None


_ANNOUNCEMENT = re.compile(
    rf"({'|'.join(EventType)}) by ({'|'.join(Source)}), (?:not before (\S+)|without notice)"
)


@short_record
class OperationProgress:
    """How much of an operation this decision planned or ended, in impacts."""

    operation: str
    planned: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    why: str = ""

    def plus(self, more: "OperationProgress") -> "OperationProgress":
        """Both together."""
        return OperationProgress(
            self.operation,
            self.planned + more.planned,
            self.done + more.done,
            self.failed + more.failed,
            self.cancelled + more.cancelled,
            self.why or more.why,
        )


@short_record
class Decision:
    """What follows from a command: commit all of it, publish the scope, then carry impacts out."""

    scope: Scope | None  # None: the scope is gone
    facts: tuple[Fact, ...] = ()
    impacts: tuple[Impact, ...] = ()  # to be carried out from now on
    settled: tuple[str, ...] = ()  # ids of impacts that are over
    progress: tuple[OperationProgress, ...] = ()
    sends: tuple[Command, ...] = ()


@short_record
class EntityDecision:
    """What a set, a rollout or a lane answers: itself anew, facts, and what it sends to others."""

    entity: Entity | None  # None: it is gone
    facts: tuple[Fact, ...] = ()
    sends: tuple[Command, ...] = ()
    others: tuple[Entity, ...] = ()  # further entities that came to be
    progress: tuple[OperationProgress, ...] = ()
