"""How many machines, scopes, events and rollouts there are, and in which states."""

from collections import Counter
from collections.abc import Iterable, Mapping

from fairwarning.core.model import (
    EventStatus,
    EventType,
    Power,
    Rollout,
    RolloutStatus,
)
from fairwarning.core.record import record
from fairwarning.service.listing.filters import is_unapproved
from fairwarning.service.listing.index import FleetIndex

SOON_SECONDS = 3600


@record
class FleetSummary:
    """The counts of a fleet at one moment."""

    power: Mapping[Power, int]  # machines by power state
    scopes: int
    unpolled_scopes: int
    unpolled_machines: int
    events: Mapping[tuple[EventType, EventStatus], int]
    unapproved: int  # scheduled events that nobody has approved
    soon: int  # scheduled events that start within `SOON_SECONDS` at the latest
    rollouts: Mapping[RolloutStatus, int]


def summarize(index: FleetIndex, rollouts: Iterable[Rollout], now: float) -> FleetSummary:
    """Count what the index has."""
    events: Counter[tuple[EventType, EventStatus]] = Counter()
    unapproved = soon = 0
    for _, event in index.events():
        events[event.type, event.status] += 1
        unapproved += is_unapproved(event)
        soon += event.status is EventStatus.SCHEDULED and event.not_before <= now + SOON_SECONDS
    return FleetSummary(
        power={power: count for power in Power if (count := index.power[power])},
        scopes=len(index.scopes),
        unpolled_scopes=len(index.unpolled),
        unpolled_machines=sum(len(index.scopes[name].machines) for name in index.unpolled),
        events=events,
        unapproved=unapproved,
        soon=soon,
        rollouts=Counter(rollout.status for rollout in rollouts),
    )
