"""Turns journal lines into webhook messages.

A message is built from the journal alone, never from the scope, so that a line gives the same
message whenever it is sent, also after its event has ended.
"""

from hashlib import sha256

from fairwarning.core import times
from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import Announcement, FactType
from fairwarning.service.history.explanations import detail_text
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.messages import TYPES, WebhookMessage
from fairwarning.store.store import JournalEntry, Store

_STATUS = {
    FactType.SCHEDULED: "Scheduled",
    FactType.APPROVED: "Scheduled",  # an approval does not change the document
    FactType.STARTED: "Started",
    FactType.CANCELLED: "Cancelled",
    FactType.LAPSED: "Lapsed",
    FactType.ENDED: "Ended",
}
"""The facts that are reported, and the status of the event after each."""

_HAS_BEGUN = frozenset({FactType.STARTED, FactType.ENDED})


def is_reported(entry: JournalEntry) -> bool:
    """Whether a line is about a change of an event."""
    fact = entry.line.fact
    return fact.type in _STATUS and bool(fact.event)


class MessageBuilder:
    """Builds messages. All subscriptions share one, so each event is looked up once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._announcements: dict[str, Announcement | None] = {}

    async def page(self, after: int) -> list[JournalEntry]:
        """The next lines, reported or not; less than a page if there are no more."""
        return await self._store.journal(after=after, limit=limits.PAGE_LINES)

    async def message(self, entry: JournalEntry) -> WebhookMessage:
        """The message for a reported line."""
        line, fact = entry.line, entry.line.fact
        scope = line.entity[1]
        announcement = await self._announcement(line)
        return WebhookMessage(
            id=f"{entry.number}-{_digest(line)}",
            type=f"{TYPES}event.{fact.type.lower()}",
            scope=scope,
            subject=f"{scope}/{fact.event}",
            at=line.at,
            data={
                "EventId": fact.event,
                "EventStatus": _STATUS[fact.type],
                "EventType": announcement.type if announcement else None,
                "Resources": list(fact.machines),
                "NotBefore": _date(fact.type, announcement),
                "Scope": scope,
                "Operation": fact.operation,
                "Actor": line.actor,
                "Why": detail_text(fact),
            },
        )

    async def _announcement(self, line: JournalLine) -> Announcement | None:
        """How the line's event was announced; None if retention has dropped that line."""
        event = line.fact.event
        if event not in self._announcements:
            announcement = line.fact.announcement or await self._look_up(event)
            if len(self._announcements) >= limits.REMEMBERED_EVENTS:
                self._announcements.clear()
            self._announcements[event] = announcement
        return self._announcements[event]

    async def _look_up(self, event: str) -> Announcement | None:
        first = await self._store.journal(event=event, limit=1)
        return first[0].line.fact.announcement if first else None


def _digest(line: JournalLine) -> str:
    """Tells a line from one that had its number before and was lost in a failover."""
    fact = line.fact
    parts = (str(line.at), line.actor, line.entity[1], fact.type, fact.event, fact.operation)
    return sha256("\n".join(parts).encode()).hexdigest()[: limits.DIGEST_DIGITS]


def _date(kind: FactType, announcement: Announcement | None) -> str | None:
    """NotBefore as in the document (M8): empty once the event has started."""
    if kind in _HAS_BEGUN:
        return ""
    not_before = announcement.not_before if announcement else None
    return None if not_before is None else times.rfc1123(not_before)
