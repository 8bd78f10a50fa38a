"""The values the rules are about. Frozen: a change is a new value, so any can be thrown away.

Times are seconds since the epoch. A moment (`created_at`) is a float; a published time
(`not_before`) is whole seconds, because that is all the wire can say.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from hashlib import sha256
from typing import Never

from fairwarning.core import limits
from fairwarning.core.record import record

NOTHING: Mapping[str, Never] = {}
"""What most scopes have of most things. They share it, for there may be a million of them."""


class ScopeKind(StrEnum):
    """What kind of group of machines sees one document."""

    STANDALONE = "Standalone"
    AVAILABILITY_SET = "AvailabilitySet"
    PLACEMENT_GROUP = "PlacementGroup"
    CLOUD_SERVICE = "CloudService"


class EventType(StrEnum):
    """The wire's event types (E1)."""

    FREEZE = "Freeze"
    REBOOT = "Reboot"
    REDEPLOY = "Redeploy"
    PREEMPT = "Preempt"
    TERMINATE = "Terminate"
    SPOT_REBALANCE = "SpotRebalanceRecommendation"


class EventStatus(StrEnum):
    """The two states that are ever shown (M10)."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"


class Source(StrEnum):
    """Who wanted it (M6)."""

    PLATFORM = "Platform"
    USER = "User"


class ImpactKind(StrEnum):
    """What a driver does to a machine."""

    FREEZE = "freeze"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    EVICT = "evict"
    DELETE = "delete"
    REIMAGE = "reimage"
    STOP = "stop"
    DEALLOCATE = "deallocate"
    START = "start"


class Priority(StrEnum):
    """Regular machines stay; Spot machines may be evicted."""

    REGULAR = "Regular"
    SPOT = "Spot"


class EvictionPolicy(StrEnum):
    """What an eviction leaves of a Spot machine."""

    DEALLOCATE = "Deallocate"
    DELETE = "Delete"


class Power(StrEnum):
    """Whether a machine runs."""

    RUNNING = "running"
    STOPPED = "stopped"
    DEALLOCATED = "deallocated"


@record
class Rules:
    """The settings of one scope. Defaults are the contract's (E1, E6, M14)."""

    freeze_seconds: int = limits.FREEZE_SECONDS
    reboot_seconds: int = limits.REBOOT_SECONDS
    redeploy_seconds: int = limits.REDEPLOY_SECONDS
    preempt_seconds: int = limits.PREEMPT_SECONDS
    recommend_seconds: int = limits.RECOMMEND_SECONDS
    user_operations: int = limits.USER_OPERATIONS
    enable_delay_seconds: int = 0
    idle_seconds: int = limits.IDLE_SECONDS
    impact_limit_seconds: int = limits.IMPACT_LIMIT_SECONDS
    approve_reboot: bool = False  # E8: userInitiatedReboot.automaticallyApprove
    approve_redeploy: bool = False  # E8: userInitiatedRedeploy.automaticallyApprove


@record
class Machine:
    """A virtual machine, as far as the rules care."""

    name: str
    host_name: str = ""
    host: str = ""  # the physical host; machines of one host are hit together (E10)
    address: str = ""  # where it is known to ask from
    update_domain: int = 0
    fault_domain: int = 0
    priority: Priority = Priority.REGULAR
    eviction: EvictionPolicy = EvictionPolicy.DEALLOCATE
    power: Power = Power.RUNNING
    terminate_seconds: int = 0  # notice of a delete, from the model it follows (T3); 0 is none
    instance: int = -1  # id in its scale set; -1 is none
    model: int = 0  # version of its scale set's model it follows
    protected: bool = False  # from scale-in
    shielded: bool = False  # from what is done to its whole scale set
    resource: str = ""  # what somebody wrote about it
    created_at: float = 0.0
    size: str = ""  # this and what follows is only shown to the machine (M19)
    zone: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@record
class Event:
    """Notice of an impact on machines of one scope and one update domain (E4)."""

    id: str
    type: EventType
    status: EventStatus
    source: Source
    resources: tuple[str, ...]
    created_at: float
    not_before: int
    operation: str
    impact: ImpactKind | None = None  # None: advice only, nothing will happen to the machine
    duration_seconds: int = limits.UNKNOWN_DURATION
    description: str = ""
    approved_by: str = ""
    queue: str = ""  # the scale set whose terminate queue must release it (T6)
    peers: tuple[str, ...] = ()  # the other scopes of its wave (E10)
    awaits: tuple[str, ...] = ()  # those of them that have not approved yet


@record
class Impact:
    """What happens, or is going to happen, to one machine."""

    id: str
    scope: str
    machine: str
    kind: ImpactKind
    operation: str
    event: str = ""  # empty: no notice was given
    duration_seconds: int = limits.UNKNOWN_DURATION
    deadline: float | None = None  # None: waits for its event to start


@record
class Scope:
    """The machines that see one document, and everything that is to happen to them.

    `impacts` is keyed by machine: at most one unfinished impact each holds by construction (E5).
    """

    id: str
    kind: ScopeKind
    group: str = ""
    owner: str = ""  # the scale set it is a placement group of
    rules: Rules = field(default_factory=Rules)
    machines: Mapping[str, Machine] = field(default_factory=dict)
    events: Mapping[str, Event] = field(default_factory=dict)  # in order of creation
    impacts: Mapping[str, Impact] = field(default_factory=dict)
    incarnation: int = 0  # 0: the feature is off
    polled_at: float = 0.0
    ready_at: float = 0.0  # the first answer is held until then (M14)
    version: int = 0

    @property
    def enabled(self) -> bool:
        """Whether operations are announced (M15)."""
        return self.incarnation > 0


class OperationStatus(StrEnum):
    """How far an operation is. Spelt as Azure's asynchronous operations are."""

    RUNNING = "InProgress"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELED = "Canceled"


@record
class Operation:
    """What somebody asked for, from acceptance to its end (IC1)."""

    id: str
    kind: str
    actor: str
    accepted_at: float
    lane: str = ""  # the rollout lane it is a step of
    planned: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    status: OperationStatus = OperationStatus.RUNNING
    ended_at: float | None = None
    error: str = ""
    removes: tuple[str, ...] = ()  # resources that go when it has succeeded
    version: int = 0


class UpgradeMode(StrEnum):
    """How a changed model reaches the instances (T3)."""

    MANUAL = "Manual"
    AUTOMATIC = "Automatic"


class ScaleInRule(StrEnum):
    """Which instances leave first."""

    DEFAULT = "Default"
    NEWEST = "NewestVM"
    OLDEST = "OldestVM"


@record
class PendingDelete:
    """A place in a scale set's terminate queue (T6)."""

    event: str
    scope: str
    not_before: int
    approved: bool = False


@record
class ScaleSet:
    """A scale set: its model and its placement groups. The instances live in the groups' scopes."""

    id: str
    name: str
    group: str = ""
    prefix: str = ""  # of host names
    model: int = 1
    terminate_seconds: int = 0
    upgrade: UpgradeMode = UpgradeMode.MANUAL
    scale_in: ScaleInRule = ScaleInRule.DEFAULT
    priority: Priority = Priority.REGULAR
    eviction: EvictionPolicy = EvictionPolicy.DEALLOCATE
    update_domains: int = limits.UPDATE_DOMAINS
    fault_domains: int = limits.FAULT_DOMAINS
    rules: Rules = field(default_factory=Rules)
    size: str = ""  # this, zone and tags are what new instances get
    zone: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    flexible: bool = False  # its instances may be called by name, as machines are
    resource: str = ""  # what somebody wrote about it
    groups: tuple[str, ...] = ()  # scope ids
    next_instance: int = 0  # T7: ids only ever grow
    queue: tuple[PendingDelete, ...] = ()  # in order of creation
    deleting: str = ""  # the operation that deletes the whole set
    version: int = 0


class RolloutStatus(StrEnum):
    """How far a rollout is."""

    RUNNING = "Running"
    PAUSED = "Paused"
    ABORTED = "Aborted"
    DONE = "Done"


@record
class Rollout:
    """A host rollout: its lanes are walked side by side, at most `batch` of them at once (E7)."""

    id: str
    kind: ImpactKind
    actor: str
    started_at: float
    batch: int
    lanes: int
    machines: int
    duration_seconds: int = limits.UNKNOWN_DURATION
    halt_percent: int | None = None  # pauses by itself when more of its machines have failed
    next_lane: int = 0
    running: tuple[int, ...] = ()  # lanes under way
    waiting: tuple[int, ...] = ()  # those of them that stopped at a pause
    done: int = 0
    failed: int = 0
    skipped: int = 0
    status: RolloutStatus = RolloutStatus.RUNNING
    why: str = ""  # it paused by itself
    ended_at: float | None = None
    version: int = 0


@record
class Lane:
    """Steps of a rollout that must follow one another, because they share a scope (IC6).

    A step names machines by scope; a step over several scopes is a wave (E10).
    """

    id: str
    rollout: str
    number: int
    steps: tuple[Mapping[str, tuple[str, ...]], ...]
    position: int = 0
    hitting: bool = False  # the step at `position` is under way
    deferred: int = 0  # how often that step found its machines busy
    retry_at: float | None = None
    version: int = 0


@record
class Resource:
    """What somebody calls a thing and wrote about it: kept and given back, never interpreted.

    Ids sort by kind, then group, then name, so that a listing is a walk over neighbours. What it
    stands for and the resource come and go together.
    """

    id: str
    group: str = ""
    name: str = ""
    body: str = "{}"  # JSON
    scope: str = ""  # stands for this scope, or for `machine` in it
    machine: str = ""
    set: str = ""  # stands for this scale set
    doomed: str = ""  # the operation that removes it
    awaited: tuple[str, ...] = ()  # operations that go on until it is gone
    written_at: float = 0.0
    version: int = 0


Entity = Scope | ScaleSet | Operation | Rollout | Lane | Resource
"""What a store keeps: a value with an id and a version."""

Ref = tuple[type[Entity], str]
"""Names an entity."""


def guid(*parts: str) -> str:
    """An upper-case GUID that depends on its parts alone: same parts, same id (ID3, IC2)."""
    h = sha256("\0".join(parts).encode()).hexdigest().upper()
    return f"{h[:8]}-{h[8:12]}-8{h[13:16]}-{'89AB'[int(h[16], 16) & 3]}{h[17:20]}-{h[20:32]}"
