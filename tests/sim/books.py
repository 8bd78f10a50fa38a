"""The observer's records, and the contract's own numbers."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from fairwarning.core.model import Event, Operation, Resource, Rollout, ScaleSet, Scope

# The contract's own numbers (E1), deliberately not imported from the code under test.
NOTICE_SECONDS = {"Freeze": 900, "Reboot": 900, "Redeploy": 600, "Preempt": 30}
CLOCK_SECONDS = 0.2  # to which the difference of two clocks is known
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
class Books:
    """Everything observed so far."""

    events: dict[str, KnownEvent] = field(default_factory=dict)  # all events
    open: dict[str, KnownEvent] = field(default_factory=dict)  # events that have not ended
    on: set[str] = field(default_factory=set)  # enabled scopes
    operations: dict[str, str] = field(default_factory=dict)  # "accepted" or "ended"
    impacts: dict[str, str] = field(default_factory=dict)  # "begun" or "over"
    carried_out: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)  # approvals
    accepted: set[str] = field(default_factory=set)  # acknowledged operations
    names: set[str] = field(default_factory=set)  # all instances that ever existed
    reads: dict[str, int] = field(default_factory=dict)
    last_read: dict[str, tuple[str, int, bytes]] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)
    sets: dict[str, ScaleSet] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)
    open_operations: dict[str, Operation] = field(default_factory=dict)
    rollouts: dict[str, Rollout] = field(default_factory=dict)
    steps: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    machines_done: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    paused: set[str] = field(default_factory=set)
    begun_at: dict[str, float] = field(default_factory=dict)
    up_since: float = 0.0  # start of the current process
    silent: Callable[[str], bool] = lambda _: False  # whether the driver never reports an impact
    true_time: Callable[[], float] | None = None  # by a clock that nothing steps, if there is one
    commits: int = 0
    timers: int = 0
    at: float = 0.0
