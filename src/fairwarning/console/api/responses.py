"""Response bodies of the operator API; the OpenAPI document is generated from them (C4)."""

from typing import Literal

from msgspec import Struct

Time = str
"""ISO 8601, to the second: `2026-11-15T10:00:00Z`."""


class EventInfo(Struct):
    """An event: notice of an impact on machines of one scope.

    An approval before `opens_at`, when its maintenance window opens, starts it at that time.
    """

    id: str
    type: str
    status: Literal["Scheduled", "Started", "Over"]
    source: str
    scope: str
    resources: list[str]
    created_at: Time
    not_before: Time | None
    opens_at: Time | None
    operation: str
    impact: str | None
    duration_seconds: int
    description: str
    approved_by: str
    awaits: list[str]


class MachineInfo(Struct):
    """A machine and its live events."""

    name: str
    scope: str
    set: str
    instance: int
    number: int
    kind: str
    group: str
    host_name: str
    host: str
    power: str
    priority: str
    eviction: str
    update_domain: int
    fault_domain: int
    terminate_notice: str | None
    size: str
    zone: str
    tags: dict[str, str]
    address: str
    subnet: str
    url: str | None
    polled: bool
    doing: str | None
    events: list[EventInfo]


class ScopeInfo(Struct):
    """A scope: machines that share one Scheduled Events document, and its events."""

    id: str
    kind: str
    set: str
    group: str
    enabled: bool
    incarnation: int
    polled_at: Time | None
    machines: list[MachineInfo]
    events: list[EventInfo]


class OperationInfo(Struct):
    """An accepted command and its progress."""

    id: str
    kind: str
    target: str  # what was addressed: a scope, a scale set, or the lane of a rollout
    actor: str
    status: str
    accepted_at: Time
    ended_at: Time | None
    planned: int
    done: int
    failed: int
    cancelled: int
    error: str


class AcceptedOperation(Struct):
    """An accepted operation with the events it scheduled; `polled`: its machines get notice."""

    operation: OperationInfo
    events: list[EventInfo]
    polled: bool


class ScaleSetInfo(Struct):
    """A scale set and its model; `capacity` excludes the instances that are `leaving`."""

    name: str
    group: str
    capacity: int
    leaving: int
    model: int
    terminate_notice: str | None
    upgrade: str
    scale_in: str
    priority: str
    eviction: str
    size: str
    zones: list[str]
    tags: dict[str, str]
    subnet: str
    scopes: list[str]
    deleting: bool
    outdated: list[str]


class ScalePlan(Struct):
    """What scaling a set would delete. `instances`: the first ten.

    `notice_seconds`: the shortest that an instance gets, without those that get none.
    """

    set: str
    capacity: int
    deleted: int
    without_notice: int
    notice_seconds: int | None
    instances: list[str]


class EventCount(Struct):
    """How many live events have this type and this status."""

    type: str
    status: str
    count: int


class SummaryInfo(Struct):
    """The fleet in numbers.

    `not_polled`: scopes of which no machine polls, so that their machines get no notice.
    `unapproved`: scheduled events that nobody has approved. `soon`: scheduled events that start
    within an hour at the latest. `problem`: why the service does not accept commands now.
    `set_aside`: how many entities are set aside because of a bug.
    `degraded`: other problems, by the part of the service that has one.
    """

    now: Time
    machines: int
    power: dict[str, int]
    scopes: int
    scopes_not_polled: int
    machines_not_polled: int
    events: list[EventCount]
    unapproved: int
    soon: int
    rollouts: dict[str, int]
    problem: str
    set_aside: int
    degraded: dict[str, str]


class RolloutInfo(Struct):
    """A host rollout and its progress."""

    id: str
    kind: str
    actor: str
    status: str
    why: str
    started_at: Time
    ended_at: Time | None
    machines: int
    done: int
    failed: int
    skipped: int
    progress: float
    batch: int
    lanes: int
    running: int
    halt_percent: int | None


class FailedMachineInfo(Struct):
    """A machine on which the impact of a rollout failed, and why."""

    machine: str
    scope: str
    error: str
    at: Time


class RolloutDetails(RolloutInfo):
    """A rollout, how fast it is, what failed and what it waits for.

    `machines_per_hour`: since the start, by fleet time; null before the first machine is done.
    `estimated_end`: at that rate; null also while the rollout does not run. `failures`: the newest
    ten. `waits_for`: at most ten sentences.
    """

    machines_per_hour: float | None
    estimated_end: Time | None
    failures: list[FailedMachineInfo]
    waits_for: list[str]


class RolloutPlan(Struct):
    """What a rollout would do. `not_polled`: scopes whose machines get no notice; the first ten.

    `earliest_end`: if every machine approves at once. `latest_end`: if none does. Failures, impacts
    of unknown duration and the time until maintenance windows open come on top.
    `scopes_with_windows` have one. `steps_without_window` never begin: the windows of their scopes
    are never open together.
    """

    kind: str
    machines: int
    scopes: int
    steps: int
    lanes: int
    batch: int
    scopes_not_polled: int
    not_polled: list[str]
    scopes_with_windows: int
    steps_without_window: int
    earliest_end: Time
    latest_end: Time


class ClockInfo(Struct):
    """The fleet's time; `ahead_seconds` of wall time, if they differ by more than 2 seconds."""

    now: Time
    virtual: bool
    rate: float
    ahead_seconds: float


class FaultInfo(Struct):
    """An injected fault, and the machines and requests it applies to."""

    kind: str
    scope: str
    machine: str
    count: int
    seconds: float
    delay_seconds: float


class JournalLineInfo(Struct):
    """A journal line: who did what, when and why."""

    number: int
    at: Time
    actor: str
    about: str
    type: str
    event: str
    machines: list[str]
    operation: str
    detail: str


class ExplanationStepInfo(Struct):
    """A step of an explanation; `after_seconds`: since the first step."""

    at: Time
    after_seconds: float
    type: str
    actor: str
    machines: list[str]
    text: str


class DeliveryInfo(Struct):
    """A delivery of the event to a machine."""

    machine: str
    at: Time


class ApprovalInfo(Struct):
    """An approval of the event."""

    by: str
    at: Time


class ExplanationInfo(Struct):
    """What happened in order, why, and what is still pending."""

    kind: Literal["event", "operation", "machine"]
    id: str
    title: str
    summary: str
    awaits: str
    steps: list[ExplanationStepInfo]
    deliveries: list[DeliveryInfo]
    approvals: list[ApprovalInfo]
    notice_seconds: float | None
    waited_seconds: float | None
    impact_seconds: float | None
    events: list[str]


class WebhookInfo(Struct):
    """A webhook and its delivery state. `url` is without its path, which may contain a key."""

    name: str
    url: str
    state: str
    cursor: int
    delivered: int
    given_up: int
    last_error: str


class CreatedWebhook(Struct):
    """A new webhook with its signing secret, which is shown only once."""

    name: str
    url: str
    secret: str


class WebhookTestResult(Struct):
    """The HTTP status that the webhook's target returned."""

    status: int


class TokenInfo(Struct):
    """A token, without its text. `parent`: the id of the token that was exchanged for it."""

    id: str
    use: str
    name: str
    role: str
    group: str
    parent: str
    created_at: Time
    expires_at: Time
    revoked_at: Time | None


class ServiceInfo(Struct):
    """The service itself, and the token of the request.

    `metadata` and `arm`: URLs of the metadata endpoint and the Azure Resource Manager API, with the
    wildcard address if they listen on all.
    `ca`: the certificate, in PEM format, that signs the certificate of that API.
    """

    version: str
    subscription: str
    metadata: str
    arm: str
    ca: str
    token: TokenInfo


class CreatedToken(Struct):
    """A new token with its text, which is shown only once."""

    info: TokenInfo
    token: str


class RevokedTokens(Struct):
    """The tokens of a request to revoke them."""

    tokens: list[TokenInfo]


# --- Pages --------------------------------------------------------------------------------------


class MachineList(Struct):
    """A page of machines, by number; `total`: on all pages."""

    machines: list[MachineInfo]
    next: int | None
    total: int


class ScopeList(Struct):
    """A page of scopes, by id."""

    scopes: list[ScopeInfo]
    next: str | None


class ScaleSetList(Struct):
    """A page of scale sets, by name."""

    sets: list[ScaleSetInfo]
    next: str | None


class EventList(Struct):
    """A page of events; `total`: on all pages, or null if they are from the journal."""

    events: list[EventInfo]
    next: str | None
    total: int | None


class OperationList(Struct):
    """A page of operations, the newest first."""

    operations: list[OperationInfo]
    next: str | None


class RolloutList(Struct):
    """A page of rollouts, by id."""

    rollouts: list[RolloutInfo]
    next: str | None


class JournalPage(Struct):
    """A page of journal lines."""

    lines: list[JournalLineInfo]
    next: int | None


class FaultList(Struct):
    """The active faults."""

    faults: list[FaultInfo]


class SetAsideInfo(Struct):
    """An entity that is set aside because of a bug."""

    entity: str
    reason: str
    since: Time
    attempts: int
    retry_at: Time


class SetAsideList(Struct):
    """All entities that are set aside."""

    set_aside: list[SetAsideInfo]


class WebhookList(Struct):
    """All webhooks."""

    webhooks: list[WebhookInfo]


class TokenList(Struct):
    """A page of tokens, by id."""

    tokens: list[TokenInfo]
    next: str | None
