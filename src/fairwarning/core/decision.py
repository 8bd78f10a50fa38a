"""The results of a decision: facts for the journal, impacts for drivers, messages to entities."""

from enum import StrEnum

from fairwarning.core.commands import Command
from fairwarning.core.model import Entity, Event, EventStatus, EventType, Impact, Scope, Source
from fairwarning.core.record import short_record


class FactType(StrEnum):
    """The types of journal lines, in the past tense; each change has one (IC7)."""

    SCOPE_CREATED = "ScopeCreated"
    SCOPE_REMOVED = "ScopeRemoved"
    CONFIGURED = "Configured"
    MACHINE_ADDED = "MachineAdded"
    MACHINE_CHANGED = "MachineChanged"
    MACHINE_LINKED = "MachineLinked"
    MACHINE_REMOVED = "MachineRemoved"
    ENABLED = "Enabled"
    DISABLED = "Disabled"
    SCHEDULED = "Scheduled"
    DELIVERED = "Delivered"
    APPROVED = "Approved"
    APPROVAL_REFUSED = "ApprovalRefused"
    PEER_APPROVED = "PeerApproved"
    STARTED = "Started"
    CANCELLED = "Cancelled"
    LAPSED = "Lapsed"
    ENDED = "Ended"
    IMPACT_BEGUN = "ImpactBegun"
    IMPACT_CARRIED_OUT = "ImpactCarriedOut"
    IMPACT_FAILED = "ImpactFailed"
    REPORTED_LATE = "ReportedLate"
    SET_CREATED = "SetCreated"
    SET_CHANGED = "SetChanged"
    SET_REMOVED = "SetRemoved"
    RESOURCE_WRITTEN = "ResourceWritten"
    RESOURCE_REMOVED = "ResourceRemoved"
    OPERATION_ACCEPTED = "OperationAccepted"
    OPERATION_ENDED = "OperationEnded"
    OPERATION_CORRECTED = "OperationCorrected"
    ROLLOUT_STARTED = "RolloutStarted"
    ROLLOUT_PAUSED = "RolloutPaused"
    ROLLOUT_RESUMED = "RolloutResumed"
    ROLLOUT_ABORTED = "RolloutAborted"
    ROLLOUT_ENDED = "RolloutEnded"
    STEP_BEGUN = "StepBegun"
    STEP_DEFERRED = "StepDeferred"
    STEP_ENDED = "StepEnded"
    SET_ASIDE = "SetAside"
    RELEASED = "Released"


EVENT_ENDED = frozenset({FactType.CANCELLED, FactType.LAPSED, FactType.ENDED})
"""After one of these facts an event is no longer in the document."""


ONLY_JOURNALED = frozenset({FactType.DELIVERED, FactType.APPROVAL_REFUSED})
"""These facts are about requests and change nothing."""


CARRIED_OUT = "carried out"
"""The detail of the end of an event, and of a late report, if nothing failed."""


@short_record
class Announcement:
    """How an event was announced, for readers of the journal after the event is gone."""

    type: EventType
    source: Source
    not_before: int | None  # None: the event started without notice


def announcement_of(event: Event) -> Announcement:
    """How this new event is announced."""
    sudden = event.status is EventStatus.STARTED
    return Announcement(event.type, event.source, None if sudden else event.not_before)


@short_record
class Fact:
    """One change, for the journal. Readers make sentences of it and never parse one."""

    type: FactType
    event: str = ""
    machines: tuple[str, ...] = ()
    operation: str = ""
    detail: str = ""
    announcement: Announcement | None = None  # on the line that announces an event


@short_record
class OperationProgress:
    """How many impacts of an operation a decision planned, finished or cancelled."""

    operation: str
    planned: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    error: str = ""
    begun_at: float = 0.0  # of the impact of a correction

    @property
    def corrects(self) -> bool:
        """Whether it takes back failures; nothing else changes an operation that has ended."""
        return self.failed < 0

    def plus(self, more: "OperationProgress") -> "OperationProgress":
        """The sum of both."""
        return OperationProgress(
            self.operation,
            self.planned + more.planned,
            self.done + more.done,
            self.failed + more.failed,
            self.cancelled + more.cancelled,
            self.error or more.error,
            self.begun_at or more.begun_at,
        )


@short_record
class Decision:
    """The result of a command on a scope: commit it, publish the scope, then start the impacts."""

    scope: Scope | None  # None: the scope was removed
    facts: tuple[Fact, ...] = ()
    impacts: tuple[Impact, ...] = ()  # to hand to the driver
    settled: tuple[str, ...] = ()  # ids of impacts that have ended
    progress: tuple[OperationProgress, ...] = ()
    sends: tuple[Command, ...] = ()


@short_record
class EntityDecision:
    """The result of a command on a set, a rollout, a lane, an operation or a resource."""

    entity: Entity | None  # None: the entity was removed
    facts: tuple[Fact, ...] = ()
    sends: tuple[Command, ...] = ()
    others: tuple[Entity, ...] = ()  # further entities that were created
    progress: tuple[OperationProgress, ...] = ()
