"""The values that the rules decide on. They are frozen: a change makes a new value.

Times are seconds since the epoch. A moment (`created_at`) is a float; a published time
(`not_before`) is in whole seconds, the resolution of the document.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from hashlib import sha256
from typing import Never, get_args

from fairwarning.core import limits
from fairwarning.core.record import record

NOTHING: Mapping[str, Never] = {}
"""An empty mapping that scopes share; there may be a million scopes."""


class ScopeKind(StrEnum):
    """The kinds of scopes."""

    STANDALONE = "Standalone"
    AVAILABILITY_SET = "AvailabilitySet"
    PLACEMENT_GROUP = "PlacementGroup"
    CLOUD_SERVICE = "CloudService"


class EventType(StrEnum):
    """The event types of the document (E1)."""

    FREEZE = "Freeze"
    REBOOT = "Reboot"
    REDEPLOY = "Redeploy"
    PREEMPT = "Preempt"
    TERMINATE = "Terminate"
    SPOT_REBALANCE = "SpotRebalanceRecommendation"


class EventStatus(StrEnum):
    """The statuses that a document shows (M10)."""

    SCHEDULED = "Scheduled"
    STARTED = "Started"


class Source(StrEnum):
    """Who caused an event (M6)."""

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
    """Spot machines may be evicted, Regular ones not."""

    REGULAR = "Regular"
    SPOT = "Spot"


class EvictionPolicy(StrEnum):
    """What an eviction does to a Spot machine."""

    DEALLOCATE = "Deallocate"
    DELETE = "Delete"


class Power(StrEnum):
    """The power state of a machine."""

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
    maintenance_window: str = ""  # when rollouts may maintain it (`core/windows.py`); empty: always


@record
class Machine:
    """A virtual machine, as the rules see it."""

    name: str
    host_name: str = ""
    host: str = ""  # the physical host; host maintenance affects all its machines (E10)
    address: str = ""  # the source address of its requests
    subnet: str = ""  # the network that it has an address of, as "10.0.0.0/24"
    update_domain: int = 0
    fault_domain: int = 0
    priority: Priority = Priority.REGULAR
    eviction: EvictionPolicy = EvictionPolicy.DEALLOCATE
    power: Power = Power.RUNNING
    terminate_seconds: int = 0  # notice of a delete, from its model (T3); 0: none
    instance: int = -1  # id in its scale set; -1: none
    model: int = 0  # version of the scale set's model that it has; 0: it has none
    protected: bool = False  # from scale-in
    shielded: bool = False  # from operations on the whole scale set
    resource: str = ""  # id of the ARM resource that describes it
    created_at: float = 0.0
    size: str = ""  # from here on: shown to the machine only (M19)
    zone: str = ""
    windows: bool = False  # its operating system; else Linux
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
    clock_ahead: int = 0  # seconds by which fleet time was ahead of wall time when it was announced
    impact: ImpactKind | None = None  # None: advice, no impact follows
    duration_seconds: int = limits.UNKNOWN_DURATION
    description: str = ""
    maintenance: bool = False  # planned by the platform: one update domain at a time (IC6)
    opens_at: int = 0  # when its maintenance window opens; an approval waits until then
    approved_by: str = ""
    queue: str = ""  # the scale set whose terminate queue must release it (T6)
    peers: tuple[str, ...] = ()  # the other scopes of its wave (E10)
    awaits: tuple[str, ...] = ()  # the peers that have not approved yet
    failed: int = 0  # how many of its impacts failed

    @property
    def published_not_before(self) -> int:
        """What its machines read: NotBefore by their clocks, unless the host's was wrong (E11)."""
        return self.not_before - self.clock_ahead


@record
class Impact:
    """An action on one machine, in progress or planned."""

    id: str
    scope: str
    machine: str
    kind: ImpactKind
    operation: str
    event: str = ""  # empty: without notice
    duration_seconds: int = limits.UNKNOWN_DURATION
    limit_seconds: int = limits.IMPACT_LIMIT_SECONDS  # for the driver, from when it has it (E9)
    deadline: float | None = None  # by that limit, from the start; None: waits for its event
    keeps_power: bool = False  # the platform's: it starts no machine that its user stopped (E5)
    superseded: bool = False  # given up, and the machine has done something else since

    @property
    def in_progress(self) -> bool:
        """Whether the impact has started."""
        return self.deadline is not None


@record
class Scope:
    """The machines that share one document, with their events and impacts.

    `impacts` is keyed by machine, so a machine has at most one unfinished impact (E5). `delayed`
    holds impacts of the platform, by machine, that wait until their user's start has ended.
    `given_up` holds impacts, by id, that count as failed although the driver has not reported them
    yet (E9).
    """

    id: str
    kind: ScopeKind
    group: str = ""
    owner: str = ""  # the scale set whose placement group it is
    rules: Rules = field(default_factory=Rules)
    machines: Mapping[str, Machine] = field(default_factory=dict)
    events: Mapping[str, Event] = field(default_factory=dict)  # in order of creation
    impacts: Mapping[str, Impact] = field(default_factory=dict)
    delayed: Mapping[str, Impact] = field(default_factory=dict)
    given_up: Mapping[str, Impact] = field(default_factory=dict)
    incarnation: int = 0  # 0: Scheduled Events is disabled
    polled_at: float = 0.0
    ready_at: float = 0.0  # the first response is held until then (M14)
    retry_at: float = 0.0  # after a bug: work that is due waits until then (`SetAside`)
    version: int = 0

    @property
    def enabled(self) -> bool:
        """Whether Scheduled Events is enabled, so that operations are announced (M15)."""
        return self.incarnation > 0


class OperationStatus(StrEnum):
    """The status of an operation, spelled as in Azure's asynchronous operations."""

    RUNNING = "InProgress"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELED = "Canceled"


@record
class Operation:
    """An operation, from acceptance to its end (IC1)."""

    id: str
    kind: str
    actor: str
    accepted_at: float
    lane: str = ""  # the rollout lane whose step it is
    target: str = ""  # the entity that the command addressed
    group: str = ""  # of that entity
    request: str = ""  # what the caller asked for; a repeat must ask for the same (E9)
    digest: str = ""  # of the command, if its caller did not say what it asked for
    planned: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    status: OperationStatus = OperationStatus.RUNNING
    ended_at: float | None = None
    error: str = ""
    removes: tuple[str, ...] = ()  # resources to remove once it has succeeded
    version: int = 0


class UpgradeMode(StrEnum):
    """How a changed model is applied to instances (T3)."""

    MANUAL = "Manual"
    AUTOMATIC = "Automatic"


class ScaleInRule(StrEnum):
    """Which instances scale-in deletes first."""

    DEFAULT = "Default"
    NEWEST = "NewestVM"
    OLDEST = "OldestVM"


@record
class PendingDelete:
    """An entry of a scale set's terminate queue (T6)."""

    event: str
    scope: str
    not_before: int
    approved: bool = False


@record
class ScaleSet:
    """A scale set: its model and its placement groups. Instances are machines of their scopes."""

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
    size: str = ""  # size and tags are part of the model; zones are for new instances
    zones: tuple[str, ...] = ()  # instances are spread over them
    windows: bool = False  # the operating system of its instances; else Linux
    tags: Mapping[str, str] = field(default_factory=dict)
    flexible: bool = False  # flexible orchestration: instances can be addressed by name
    subnet: str = ""  # of its instances
    resource: str = ""  # id of the ARM resource that describes it
    groups: tuple[str, ...] = ()  # scope ids
    next_instance: int = 0  # ids are never reused (T7)
    queue: tuple[PendingDelete, ...] = ()  # in order of creation
    deleting: str = ""  # the operation that deletes the set
    version: int = 0


class RolloutStatus(StrEnum):
    """The status of a rollout."""

    RUNNING = "Running"
    PAUSED = "Paused"
    ABORTED = "Aborted"
    DONE = "Done"


@record
class Rollout:
    """A host rollout. Its lanes run in parallel, at most `batch` at once (E7)."""

    id: str
    kind: ImpactKind
    actor: str
    started_at: float
    batch: int
    lanes: int
    machines: int
    duration_seconds: int = limits.UNKNOWN_DURATION
    halt_percent: int | None = None  # pauses when more than this share of machines has failed
    next_lane: int = 0
    running: tuple[int, ...] = ()  # lanes in progress
    waiting: tuple[int, ...] = ()  # running lanes that a pause has stopped
    done: int = 0
    failed: int = 0
    skipped: int = 0
    status: RolloutStatus = RolloutStatus.RUNNING
    why: str = ""  # why it paused by itself
    ended_at: float | None = None
    version: int = 0


@record
class Lane:
    """Steps of a rollout that must run one after the other, because they share scopes (IC6).

    A step names machines by scope; a step over several scopes is a wave (E10).
    """

    id: str
    rollout: str
    number: int
    steps: tuple[Mapping[str, tuple[str, ...]], ...]
    hosts: tuple[str, ...] = ()  # that it works on; empty: any
    position: int = 0
    in_progress: bool = False  # the step at `position` is in progress
    deferred: int = 0  # how often the machines of that step were busy
    retry_at: float | None = None
    window_at: float | None = None  # when the window opens that the step waits for; 0: never
    version: int = 0


@record
class Resource:
    """A resource as its user wrote it: stored and returned, never interpreted.

    Ids sort by kind, then group, then name, so that a listing reads a range of ids. The resource
    and what it describes are created and removed together.
    """

    id: str
    group: str = ""
    name: str = ""
    body: str = "{}"  # JSON
    scope: str = ""  # describes this scope, or `machine` in it
    machine: str = ""
    set: str = ""  # describes this scale set
    uses: tuple[str, ...] = ()  # resources that are in use by this one, such as its interfaces
    owns: tuple[str, ...] = ()  # those of them that are removed with it
    used_by: str = ""  # the resource that uses this one
    removed_by: str = ""  # the operation that removes it
    awaited: tuple[str, ...] = ()  # operations that wait for its removal
    written_at: float = 0.0
    version: int = 0


@record
class Subnet:
    """The addresses of a network that machines have; its id is the network, as "10.0.0.0/24"."""

    id: str
    used: str = "0"  # one bit for each address in use, hexadecimal
    next: int = 0  # the place of the address to try first
    version: int = 0


@record
class SetAside:
    """An entity on which a command could not be decided, because of a bug (IB1).

    Its own id says which: "Scope/web". It lasts until an operator or another version of the
    software releases it. Callers may still send commands to the entity.
    """

    id: str
    reason: str
    since: float
    attempts: int  # decisions that failed
    retry_at: float
    software: str  # the version that set it aside
    version: int = 0


Entity = Scope | ScaleSet | Operation | Rollout | Lane | Resource | Subnet | SetAside
"""A stored value with an id and a version."""

KINDS: dict[str, type[Entity]] = {kind.__name__: kind for kind in get_args(Entity)}
"""Entity kinds by their stored name."""

Ref = tuple[type[Entity], str]
"""The kind and id of an entity."""


def guid(*parts: str) -> str:
    """An upper-case GUID, computed from its parts: same parts, same id (ID3, IC2)."""
    h = sha256("\0".join(parts).encode()).hexdigest().upper()
    return f"{h[:8]}-{h[8:12]}-8{h[13:16]}-{'89AB'[int(h[16], 16) & 3]}{h[17:20]}-{h[20:32]}"
