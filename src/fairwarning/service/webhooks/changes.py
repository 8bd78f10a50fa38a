"""From a line of the journal to a message: which lines are told, and what they tell.

The journal alone is asked, never the scope: so a line gives the same message whenever it is sent,
also when its event is long gone.
"""

from collections import OrderedDict

from fairwarning.core import times
from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import FactType, read_announcement
from fairwarning.core.model import EventType
from fairwarning.core.record import record
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.messages import TYPES, WebhookMessage
from fairwarning.store.store import JournalEntry, Store

_STATUS = {
    FactType.SCHEDULED: "Scheduled",
    FactType.APPROVED: "Scheduled",  # what a machine reads does not change by it
    FactType.STARTED: "Started",
    FactType.CANCELLED: "Cancelled",
    FactType.LAPSED: "Lapsed",
    FactType.ENDED: "Ended",
}
"""The lines that are told, and how the event then stands."""

_HAS_BEGUN = frozenset({FactType.STARTED, FactType.ENDED})


@record
class _Announced:
    """What was said of an event when it came; None where an older journal does not tell."""

    type: EventType | None = None
    not_before: int | None = None


def is_reported(entry: JournalEntry) -> bool:
    """Whether a line is about a change of an event."""
    fact = entry.line.fact
    return fact.did in _STATUS and bool(fact.event)


class MessageBuilder:
    """Makes messages of lines; one for all subscriptions, so that an event is looked up once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, _Announced] = OrderedDict()

    async def page(self, after: int) -> list[JournalEntry]:
        """The next lines, told or not; fewer than a page if there are no more."""
        return await self._store.journal(after=after, limit=limits.PAGE_LINES)

    async def message(self, entry: JournalEntry) -> WebhookMessage:
        """What to send of a line that is told."""
        line, fact = entry.line, entry.line.fact
        scope = line.entity[1]
        announced = await self._announced(line)
        return WebhookMessage(
            id=str(entry.number),
            type=f"{TYPES}event.{fact.did.lower()}",
            scope=scope,
            subject=f"{scope}/{fact.event}",
            at=line.at,
            data={
                "EventId": fact.event,
                "EventStatus": _STATUS[fact.did],
                "EventType": announced.type,
                "Resources": fact.machine.split(","),
                "NotBefore": _date(fact.did, announced.not_before),
                "Scope": scope,
                "Operation": fact.operation,
                "Actor": line.actor,
                "Why": fact.why,
            },
        )

    async def _announced(self, line: JournalLine) -> _Announced:
        event = line.fact.event
        known = self._known.get(event)
        if known is None:
            known = _read(line) or await self._look_up(event)
            self._known[event] = known
            if len(self._known) > limits.REMEMBERED_EVENTS:
                self._known.popitem(last=False)
        return known

    async def _look_up(self, event: str) -> _Announced:
        """Its first line is the one that announced it."""
        first = await self._store.journal(event=event, limit=1)
        return (_read(first[0].line) if first else None) or _Announced()


def _read(line: JournalLine) -> _Announced | None:
    if line.fact.did not in {FactType.SCHEDULED, FactType.STARTED}:
        return None
    found = read_announcement(line.fact.why)
    return _Announced(type=found[0], not_before=found[2]) if found else None


def _date(did: FactType, not_before: int | None) -> str | None:
    """As the document has it (M8): empty once the event has started."""
    if did in _HAS_BEGUN:
        return ""
    return None if not_before is None else times.rfc1123(not_before)
