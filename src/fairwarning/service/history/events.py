"""The lives of events, put together from the journal: also of those that are over (O7)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from fairwarning.core.decision import EVENT_ENDED, FactType, read_announcement
from fairwarning.core.model import EventType, Scope, Source
from fairwarning.store.store import JournalEntry

__all__ = ["EventHistory", "JournalEntry", "event_histories"]


@dataclass(slots=True, kw_only=True)
class EventHistory:
    """What became of one event. What the lines do not tell is empty or None."""

    id: str
    scope: str
    operation: str = ""
    resources: tuple[str, ...] = ()
    type: EventType | None = None
    source: Source | None = None
    created_at: float | None = None
    not_before: int | None = None  # None: there was no notice
    told: dict[str, float] = field(default_factory=dict)  # machines, and when first
    approved_by: str = ""
    approved_at: float | None = None
    started_at: float | None = None
    started_why: str = ""
    began: dict[str, float] = field(default_factory=dict)  # impacts, by machine
    finished: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # instead, and why
    ended_at: float | None = None
    ended: FactType | None = None  # carried out, cancelled or lapsed
    ended_why: str = ""

    @property
    def whole(self) -> bool:
        """Whether it is known from its beginning."""
        return self.created_at is not None


def event_histories(entries: Iterable[JournalEntry]) -> dict[str, EventHistory]:
    """The events that these lines tell of, oldest line first."""
    found: dict[str, EventHistory] = {}
    for entry in entries:
        event = entry.line.fact.event
        if event and entry.line.entity[0] is Scope:
            if event not in found:
                found[event] = EventHistory(id=event, scope=entry.line.entity[1])
            _live(found[event], entry)
    return found


def _live(life: EventHistory, entry: JournalEntry) -> None:
    """One line more."""
    at, actor, fact = entry.line.at, entry.line.actor, entry.line.fact
    life.operation = fact.operation or life.operation
    match fact.did:
        case FactType.SCHEDULED:
            _announced(life, entry)
        case FactType.TOLD:
            life.told |= {one: at for one in fact.machine.split(",") if one not in life.told}
        case FactType.APPROVED:
            life.approved_by, life.approved_at = actor, at
        case FactType.STARTED:
            if not life.whole:  # no notice was given
                _announced(life, entry)
            life.started_at, life.started_why = at, fact.why
        case FactType.BEGUN:
            life.began[fact.machine] = at
        case FactType.CARRIED_OUT:
            life.finished[fact.machine] = at
        case FactType.FAILED:
            life.failed[fact.machine] = fact.why
        case did if did in EVENT_ENDED:
            life.ended, life.ended_at, life.ended_why = did, at, fact.why


def _announced(life: EventHistory, entry: JournalEntry) -> None:
    fact = entry.line.fact
    life.created_at, life.resources = entry.line.at, tuple(fact.machine.split(","))
    if read := read_announcement(fact.why):
        life.type, life.source, life.not_before = read
