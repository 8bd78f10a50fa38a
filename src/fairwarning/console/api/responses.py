"""What the operator's API gives, as shapes; the OpenAPI document is made of them (C4)."""

from typing import Literal

from msgspec import Struct

Time = str
"""ISO 8601, to the second: `2026-11-15T10:00:00Z`."""


class EventInfo(Struct):
    """Notice of an impact on machines of one scope."""

    id: str
    type: str
    status: Literal["Scheduled", "Started", "Over"]
    source: str
    scope: str
    resources: list[str]
    created_at: Time
    not_before: Time | None
    operation: str
    impact: str | None
    duration_seconds: int
    description: str
    approved_by: str
    awaits: list[str]


class MachineInfo(Struct):
    """A machine, and what is announced for it."""

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
    polled: bool
    doing: str | None
    events: list[EventInfo]


class ScopeInfo(Struct):
    """The machines that see one document, and the events in it."""

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
    """What somebody asked for, and how far it is."""

    id: str
    kind: str
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
    """An operation was accepted; the events that it made, if the machines' scope is polled."""

    operation: OperationInfo
    events: list[EventInfo]
    polled: bool


class ScaleSetInfo(Struct):
    """A scale set and its model; instances that are about to go are `leaving`, not `capacity`."""

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
    zone: str
    tags: dict[str, str]
    scopes: list[str]
    deleting: bool
    outdated: list[str]


class RolloutInfo(Struct):
    """A host rollout, and how far it is."""

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


class ClockInfo(Struct):
    """The fleet's time."""

    now: Time
    virtual: bool
    rate: float


class FaultInfo(Struct):
    """What the metadata endpoint does wrong, to whom and how often."""

    kind: str
    scope: str
    machine: str
    count: int
    seconds: float
    delay_seconds: float


class JournalLineInfo(Struct):
    """A line of the journal: who did what, when and why."""

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
    """One thing that came to pass, `after` so many seconds since the first."""

    at: Time
    after: float
    type: str
    actor: str
    machines: list[str]
    text: str


class DeliveryInfo(Struct):
    """A machine was shown the event."""

    machine: str
    at: Time


class ApprovalInfo(Struct):
    """Somebody approved the event."""

    by: str
    at: Time


class ExplanationInfo(Struct):
    """What happened, in order, why, and what is still awaited."""

    kind: Literal["event", "operation", "machine"]
    id: str
    title: str
    summary: str
    awaits: str
    steps: list[ExplanationStepInfo]
    told: list[DeliveryInfo]
    approved: list[ApprovalInfo]
    notice_seconds: float | None
    waited_seconds: float | None
    impact_seconds: float | None
    events: list[str]


class EventHistoryInfo(EventInfo):
    """An event with the moments of its life."""

    approved_at: Time | None
    started_at: Time | None
    ended_at: Time | None
    cancelled: bool


class TimelineInfo(Struct, rename={"begins": "from", "ends": "to"}):
    """Events that are there, and those that were over since `from`; `cut`: there were more."""

    begins: Time
    ends: Time
    now: Time
    cut: bool
    events: list[EventHistoryInfo]


class ScenarioInfo(Struct):
    """A scenario that can be run."""

    name: str
    about: str
    text: str


class ScenarioResultInfo(Struct):
    """How a scenario went, in virtual time; `difference` is the first one."""

    name: str
    passed: bool
    steps: int
    seconds: float
    took: float
    difference: str


class WebhookInfo(Struct):
    """Whom every change of an event is sent to, and how that goes."""

    name: str
    url: str
    form: str
    state: str
    cursor: int
    delivered: int
    given_up: int
    last_error: str


class CreatedWebhook(Struct):
    """The secret that messages are signed with is shown this once."""

    name: str
    url: str
    form: str
    secret: str


class WebhookTestResult(Struct):
    """How a webhook's target answered."""

    status: int


# --- Pages --------------------------------------------------------------------------------------


class MachineList(Struct):
    """Machines in order of their numbers."""

    machines: list[MachineInfo]
    next: int | None


class ScopeList(Struct):
    """Scopes in order of their ids."""

    scopes: list[ScopeInfo]
    next: str | None


class ScaleSetList(Struct):
    """Scale sets in order of their names."""

    sets: list[ScaleSetInfo]
    next: str | None


class EventList(Struct):
    """Events that are there, in order of their scopes."""

    events: list[EventInfo]
    next: str | None


class RolloutList(Struct):
    """Rollouts in order of their ids."""

    rollouts: list[RolloutInfo]
    next: str | None


class JournalPage(Struct):
    """Lines of the journal."""

    lines: list[JournalLineInfo]
    next: int | None


class FaultList(Struct):
    """The faults in force."""

    faults: list[FaultInfo]


class ScenarioList(Struct):
    """The scenarios that ship with it."""

    scenarios: list[ScenarioInfo]


class WebhookList(Struct):
    """All webhooks."""

    webhooks: list[WebhookInfo]
