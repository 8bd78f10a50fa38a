"""Event histories, built from journal lines; they outlive their events (O7)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from fairwarning.core.decision import CARRIED_OUT, EVENT_ENDED, Fact, FactType
from fairwarning.core.model import Event, EventType, Scope, Source
from fairwarning.store.store import JournalEntry

__all__ = ["EventHistory", "JournalEntry", "add_line", "event_histories"]


@dataclass(slots=True, kw_only=True)
class EventHistory:
    """What happened to one event. A field is empty or None if no line says it."""

    id: str
    scope: str
    operation: str = ""
    resources: tuple[str, ...] = ()
    type: EventType | None = None
    source: Source | None = None
    created_at: float | None = None
    not_before: int | None = None  # None: no notice was given
    delivered: dict[str, float] = field(default_factory=dict)  # machine -> first delivery
    approved_by: str = ""
    approved_at: float | None = None
    started_at: float | None = None
    started_because: str = ""  # "approved" or "NotBefore"; empty without notice
    impact_began: dict[str, float] = field(default_factory=dict)  # by machine
    impact_done: dict[str, float] = field(default_factory=dict)
    impact_failed: dict[str, str] = field(default_factory=dict)  # machine -> error
    ended_at: float | None = None
    ended: FactType | None = None  # ended, cancelled or lapsed
    ended_because: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether the history starts with the event's announcement."""
        return self.created_at is not None

    def complete_from(self, event: Event) -> None:
        """Take from a live event what its announcement said, if that line was dropped (IR2)."""
        if not self.is_complete:
            self.operation, self.resources = event.operation, event.resources
            self.type, self.source = event.type, event.source
            self.created_at, self.not_before = event.created_at, event.not_before


def event_histories(entries: Iterable[JournalEntry]) -> dict[str, EventHistory]:
    """The events that these lines concern, by id. Lines come oldest first."""
    histories: dict[str, EventHistory] = {}
    for entry in entries:
        add_line(histories, entry)
    return histories


def add_line(histories: dict[str, EventHistory], entry: JournalEntry) -> None:
    """Add what a line says to the history of its event, if it is about one."""
    event = entry.line.fact.event
    if event and entry.line.entity[0] is Scope:
        if event not in histories:
            histories[event] = EventHistory(id=event, scope=entry.line.entity[1])
        _add(histories[event], entry)


def _add(history: EventHistory, entry: JournalEntry) -> None:
    at, fact = entry.line.at, entry.line.fact
    history.operation = fact.operation or history.operation
    if announced := fact.announcement:
        history.created_at, history.resources = at, fact.machines
        history.type, history.source = announced.type, announced.source
        history.not_before = announced.not_before
    match fact.type:
        case FactType.DELIVERED:
            for machine in fact.machines:
                history.delivered.setdefault(machine, at)
        case FactType.APPROVED:
            history.approved_by, history.approved_at = fact.detail, at
        case FactType.STARTED:
            history.started_at, history.started_because = at, fact.detail
            history.resources = fact.machines
        case ended if ended in EVENT_ENDED:
            history.ended, history.ended_at, history.ended_because = ended, at, fact.detail
            history.resources = fact.machines
        case _:
            _add_impact(history, at, fact)


def _add_impact(history: EventHistory, at: float, fact: Fact) -> None:
    match fact.type:
        case FactType.IMPACT_BEGUN:
            history.impact_began |= dict.fromkeys(fact.machines, at)
        case FactType.IMPACT_CARRIED_OUT:
            history.impact_done |= dict.fromkeys(fact.machines, at)
        case FactType.IMPACT_FAILED:
            history.impact_failed |= dict.fromkeys(fact.machines, fact.detail)
        case FactType.REPORTED_LATE if fact.detail == CARRIED_OUT:
            for machine in fact.machines:
                history.impact_failed.pop(machine, None)
                history.impact_done[machine] = at
