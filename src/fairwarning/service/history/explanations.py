"""Explanations: an event, an operation or a machine in sentences, from its journal lines (O7).

Pure. `queries` reads the lines.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from fairwarning.core.decision import CARRIED_OUT, Announcement, Fact, FactType
from fairwarning.core.model import Event, EventStatus, Operation, Scope
from fairwarning.core.record import record
from fairwarning.core.times import iso, spoken
from fairwarning.service.history.events import EventHistory, JournalEntry, event_histories

_NAMES_SHOWN = 5  # machines that a sentence names before it gives a count


@record
class ExplanationStep:
    """One journal line as a sentence."""

    at: float
    type: FactType
    actor: str
    machines: tuple[str, ...]
    text: str


@record
class Explanation:
    """What happened, in order, and what is still awaited (empty: nothing)."""

    kind: Literal["event", "operation", "machine"]
    id: str
    title: str
    summary: str
    awaits: str
    steps: tuple[ExplanationStep, ...]
    events: tuple[EventHistory, ...]


def explain_event(
    history: EventHistory,
    entries: Sequence[JournalEntry],
    event: Event | None,
    operation: Operation | None,
    now: float,
) -> Explanation:
    """Explain one event; `event` is its present state, None once it has ended."""
    kind = history.type or "Event"
    origin = f", requested by {operation.actor} ({operation.kind})" if operation else ""
    return Explanation(
        kind="event",
        id=history.id,
        title=f"{kind} of {join_names(history.resources)} in {history.scope}{origin}",
        summary=_summary(history, event),
        awaits=awaited(event, now) if event else "",
        steps=_steps(entries),
        events=(history,),
    )


def explain_operation(
    entries: Sequence[JournalEntry], operation: Operation, events: Sequence[Event], now: float
) -> Explanation:
    """Explain an operation; `events` are those of its events that have not ended."""
    counts = [f"{operation.done} of {operation.planned} impacts done"]
    counts += [f"{operation.failed} failed"] if operation.failed else []
    counts += [f"{operation.cancelled} cancelled"] if operation.cancelled else []
    error = f" ({operation.error})" if operation.error else ""
    return Explanation(
        kind="operation",
        id=operation.id,
        title=f"{operation.kind}, requested by {operation.actor}",
        summary=f"{operation.status}: {', '.join(counts)}{error}.",
        awaits=_awaited_by_all(events, now),
        steps=_steps(entries),
        events=tuple(event_histories(entries).values()),
    )


def explain_machine(
    entries: Sequence[JournalEntry], name: str, scope: Scope | None, now: float
) -> Explanation:
    """Explain the recent past of a machine."""
    machine = scope.machines.get(name) if scope else None
    events = [event for event in scope.events.values() if name in event.resources] if scope else []
    state = machine.power.capitalize() if machine else "Deleted"
    polled = scope is not None and scope.enabled
    unpolled = "" if polled else "; its scope is not polled, so it gets no notice"
    pending = ", ".join(f"{event.type} ({event.status})" for event in events) or "none"
    return Explanation(
        kind="machine",
        id=name,
        title=f"{name} in {scope.id}" if scope else name,
        summary=f"{state}; events: {pending}{unpolled}.",
        awaits=_awaited_by_all(events, now),
        steps=_steps(entries),
        events=tuple(event_histories(entries).values()),
    )


# --- What is awaited ----------------------------------------------------------------------------


def awaited(event: Event, now: float) -> str:
    """What an event in the document is waiting for."""
    if event.status is EventStatus.STARTED:
        return f"the {event.impact} of {join_names(event.resources)} to finish"
    left = f"NotBefore, {iso(event.not_before)[11:19]}, in {spoken(event.not_before - now)}"
    if event.impact is None:
        return f"{left}; it is advice, and no impact follows"
    if not event.approved_by:
        peers = f" and of {join_names(event.awaits)}" if event.awaits else ""
        return f"approval by a machine of its scope{peers}, or {left}"
    if event.awaits:
        return f"approval in {join_names(event.awaits)}, which belong to the same wave, or {left}"
    if event.queue:
        return f"earlier deletes of the set to be approved or to time out, or {left}"
    opens_at = f"{iso(event.opens_at)[11:19]}, in {spoken(event.opens_at - now)}"
    return f"its maintenance window, which opens at {opens_at}"


def _awaited_by_all(events: Iterable[Event], now: float) -> str:
    return "; ".join(f"event {event.id[:8]}: {awaited(event, now)}" for event in events)


# --- Sentences ----------------------------------------------------------------------------------


def detail_text(fact: Fact) -> str:
    """The detail of a fact as text, for people."""
    return _describe(fact.announcement) if fact.announcement else fact.detail


def _describe(announcement: Announcement) -> str:
    not_before = announcement.not_before
    when = "without notice" if not_before is None else f"not before {iso(not_before)}"
    return f"{announcement.type} by {announcement.source}, {when}"


def _summary(history: EventHistory, event: Event | None) -> str:
    if event is not None:
        return f"{event.status} since {_time_of_day(history.started_at or history.created_at)}."
    if history.ended is FactType.CANCELLED:
        return f"Cancelled: {history.ended_because}."
    if history.ended is FactType.LAPSED:
        return "Ended: it was advice, and no impact followed."
    if history.created_at is None:
        return "Ended; the journal no longer has its announcement."
    created = history.created_at
    started = history.started_at or created
    cause = "when it was approved" if history.started_because == "approved" else "at NotBefore"
    start = f"started {cause}, after {spoken(started - created)}"
    if not history.not_before:
        start = "started without notice"
    failures = f"; {len(history.impact_failed)} impacts failed" if history.impact_failed else ""
    return f"Ended: {start}, and took {spoken((history.ended_at or created) - started)}{failures}."


def _steps(entries: Iterable[JournalEntry]) -> tuple[ExplanationStep, ...]:
    steps: list[ExplanationStep] = []
    began: dict[tuple[str, tuple[str, ...]], float] = {}
    for entry in entries:
        line, fact = entry.line, entry.line.fact
        impact = (fact.event, fact.machines)
        if fact.type is FactType.IMPACT_BEGUN:
            began[impact] = line.at
        text = _sentence(entry, line.at - began.get(impact, line.at))
        steps.append(
            ExplanationStep(
                at=line.at, type=fact.type, actor=line.actor, machines=fact.machines, text=text
            )
        )
    return tuple(steps)


_SENTENCES = {
    FactType.SCHEDULED: "{detail}, was scheduled for {machines}",
    FactType.DELIVERED: "it was delivered to {machines}",
    FactType.APPROVED: "it was approved by {detail}",
    FactType.APPROVAL_REFUSED: "approval refused: {detail}",
    FactType.PEER_APPROVED: "it was approved in {detail}, which belongs to the same wave",
    FactType.STARTED: "it started for {machines}, {detail}",
    FactType.IMPACT_BEGUN: "the {detail} of {machines} began",
    FactType.IMPACT_CARRIED_OUT: "it was carried out on {machines}, after {took}",
    FactType.IMPACT_FAILED: "it failed for {machines}, after {took}: {detail}",
    FactType.CANCELLED: "it was cancelled: {detail}",
    FactType.LAPSED: "it lapsed; it was advice, and no impact followed",
    FactType.ENDED: "it ended: {detail}",
    FactType.REPORTED_LATE: "the driver reported {machines} late: {detail}",
    FactType.OPERATION_ACCEPTED: "it was requested by {actor} ({detail}) and accepted",
    FactType.OPERATION_ENDED: "the operation ended: {detail}",
    FactType.OPERATION_CORRECTED: "the operation was corrected: {detail}",
}
_START_CAUSES = {"approved": "because it was approved", "NotBefore": "because NotBefore passed"}


def _sentence(entry: JournalEntry, took: float) -> str:
    fact, actor = entry.line.fact, entry.line.actor
    machines, detail = join_names(fact.machines), detail_text(fact)
    sentence = _SENTENCES.get(fact.type)
    if fact.type is FactType.ENDED and detail == CARRIED_OUT:
        return "it ended"
    if sentence:
        detail = _START_CAUSES.get(detail, detail)
        return sentence.format(actor=actor, machines=machines, detail=detail, took=spoken(took))
    about = f" {machines}" if machines else ""
    return f"{_words(fact.type)}{about}" + (f" ({detail})" if detail else "")


def _words(kind: FactType) -> str:
    """`MachineAdded` as words: machine added."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in kind.value).strip()


def join_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _time_of_day(moment: float | None) -> str:
    return iso(int(moment or 0))[11:19]
