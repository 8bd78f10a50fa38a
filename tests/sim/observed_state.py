"""The observer's records, and the contract's own numbers."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fairwarning.core.commands import Command
from fairwarning.core.model import (
    Entity,
    Event,
    Impact,
    Lane,
    Operation,
    Ref,
    Resource,
    Rollout,
    ScaleSet,
    Scope,
    SetAside,
    Subnet,
)

# The contract's own numbers (E1), deliberately not imported from the code under test.
KEEP_SECONDS = 1800  # the retention of operations and lines; short, so that ids are used again
CLOCK_SECONDS = 0.001  # by which a notice may be shorter than announced
PUBLISHED_SECONDS = 4.0  # by which NotBefore may differ from the host's time
LONGEST_IMPACT_SECONDS = 61  # of the simulated machines
FIELDS = {
    "2017-03-01": 6, "2017-08-01": 6, "2017-11-01": 6, "2019-01-01": 6,
    "2019-04-01": 7, "2019-08-01": 8, "2020-07-01": 9, "2024-07-09": 9,
}  # fmt: skip
HIDDEN = {
    "2017-03-01": {"Preempt", "Terminate", "SpotRebalanceRecommendation"},
    "2017-08-01": {"Preempt", "Terminate", "SpotRebalanceRecommendation"},
    "2017-11-01": {"Terminate", "SpotRebalanceRecommendation"},
    "2024-07-09": set(),
}
ANNOUNCED = {"freeze", "reboot", "redeploy", "evict"}
ONLY_NEWEST = {"SpotRebalanceRecommendation"}


@dataclass(slots=True)
class KnownEvent:
    """An event as the observer knows it."""

    scope: str
    event: Event
    approved: bool = False
    status: str = ""  # from the journal; "" before the first line, "gone" after the last
    announced_at: float = 0.0  # the true time of the commit


@dataclass(slots=True)
class ObservedState:
    """Everything observed so far."""

    events: dict[str, KnownEvent] = field(default_factory=dict)  # all events
    open: dict[str, KnownEvent] = field(default_factory=dict)  # events that have not ended
    announced: dict[tuple[str, str], list[KnownEvent]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """All events, by scope and operation."""
    on: set[str] = field(default_factory=set)  # enabled scopes
    operations: dict[str, str] = field(default_factory=dict)  # "accepted" or "ended"
    ended_at: dict[str, float] = field(default_factory=dict)  # by operation
    lanes: dict[str, Lane] = field(default_factory=dict)
    impacts: dict[str, str] = field(default_factory=dict)  # begun, failed, given up, done
    operation_of: dict[str, str] = field(default_factory=dict)  # by impact
    kind_of: dict[str, str] = field(default_factory=dict)  # by impact
    power: dict[tuple[str, ...], str] = field(default_factory=dict)
    """By scope and machine, if the last impact on the machine tells it."""
    limits: dict[str, float] = field(default_factory=dict)  # of begun impacts
    reported: dict[str, tuple[Impact, float]] = field(default_factory=dict)  # as done, when
    failed_operations: dict[str, Operation] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)  # events that started before they were stored
    gone_at: dict[str, float] = field(default_factory=dict)  # events that ended
    dropped_before: float = 0.0  # older journal lines are dropped
    requests: dict[str, Command] = field(default_factory=dict)  # of operations
    forgotten: list[Command] = field(default_factory=list)  # requests of dropped operations
    unannounced: dict[tuple[str, ...], float] = field(default_factory=dict)
    """When an impact without an event began; by operation, scope and machine."""
    carried_out: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)  # approvals
    accepted: set[str] = field(default_factory=set)  # acknowledged operations
    instances: set[tuple[str, int]] = field(default_factory=set)  # all that ever existed
    reads: dict[str, int] = field(default_factory=dict)
    polled: dict[str, tuple[float, int]] = field(default_factory=dict)
    """When each enabled scope was last polled, as far as a crash cannot lose it; its idle time."""
    last_read: dict[str, tuple[str, int, bytes]] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)
    sets: dict[str, ScaleSet] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)
    subnets: dict[str, Subnet] = field(default_factory=dict)
    open_operations: dict[str, Operation] = field(default_factory=dict)
    rollouts: dict[str, Rollout] = field(default_factory=dict)
    steps: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    machines_done: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    paused: set[str] = field(default_factory=set)
    begun_at: dict[str, float] = field(default_factory=dict)  # by impact
    with_driver_since: dict[str, float] = field(default_factory=dict)  # by begun impact
    late: Callable[[str], bool] = lambda _: False  # whether the driver reports late or never
    true_time: Callable[[], float] | None = None  # by a clock that nothing steps, where known
    wall_time: Callable[[], float] | None = None  # by the host's clock, where known
    commits: int = 0
    timers: int = 0
    at: float = 0.0

    def add_events(self, created: Mapping[str, KnownEvent]) -> None:
        self.events.update(created)
        self.open.update(created)
        for known in created.values():
            self.announced[known.scope, known.event.operation].append(known)

    def keep(self, ref: Ref, after: Entity | None) -> None:
        """Keep what an entity is now; scopes and operations are kept elsewhere."""
        kind, name = ref
        if kind is SetAside:  # a violation, which the simulation asks the fleet about
            return
        known: dict[str, Entity] = getattr(self, _KEPT_IN[kind])
        if after is None:
            known.pop(name, None)
        else:
            known[name] = after


_KEPT_IN: dict[type[Entity], str] = {
    Lane: "lanes",
    Resource: "resources",
    Rollout: "rollouts",
    ScaleSet: "sets",
    Subnet: "subnets",
}
