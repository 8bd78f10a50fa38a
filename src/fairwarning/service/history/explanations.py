"""Stories: what the journal says of an event, an operation or a machine, as sentences (O7).

Pure: lines in, a story out. `explain` reads the lines.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from fairwarning.core.decision import FactType
from fairwarning.core.model import Event, EventStatus, Operation, Scope
from fairwarning.core.record import record
from fairwarning.core.times import iso, spoken
from fairwarning.service.history.events import EventHistory, JournalEntry, event_histories

_NAMED = 5  # machines that a sentence names before it says how many more there are


@record
class ExplanationStep:
    """One thing that came to pass."""

    at: float
    did: FactType
    actor: str
    machine: str
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
    events: tuple[EventHistory, ...]  # of the events it tells of


def explain_event(
    entries: Sequence[JournalEntry], event: Event | None, operation: Operation | None, now: float
) -> Explanation:
    """The story of one event; `event` as it is now, if it is still there."""
    (life,) = event_histories(entries).values()
    kind = life.type or "Event"
    wanted = f", wanted by {operation.actor} ({operation.kind})" if operation else ""
    return Explanation(
        kind="event",
        id=life.id,
        title=f"{kind} of {_some(life.resources)} in {life.scope}{wanted}",
        summary=_summary(life, event),
        awaits=awaited(event, now) if event else "",
        steps=_steps(entries),
        events=(life,),
    )


def explain_operation(
    entries: Sequence[JournalEntry], operation: Operation, events: Sequence[Event], now: float
) -> Explanation:
    """The story of an operation; `events` are those of its events that are still there."""
    counted = [f"{operation.done} of {operation.planned} impacts done"]
    counted += [f"{operation.failed} failed"] if operation.failed else []
    counted += [f"{operation.cancelled} cancelled"] if operation.cancelled else []
    why = f" ({operation.error})" if operation.error else ""
    return Explanation(
        kind="operation",
        id=operation.id,
        title=f"{operation.kind}, asked for by {operation.actor}",
        summary=f"{operation.status}: {', '.join(counted)}{why}.",
        awaits="; ".join(f"event {one.id[:8]}: {awaited(one, now)}" for one in events),
        steps=_steps(entries),
        events=tuple(event_histories(entries).values()),
    )


def explain_machine(
    entries: Sequence[JournalEntry], name: str, scope: Scope | None, now: float
) -> Explanation:
    """The story of a machine: its newest lines."""
    machine = scope.machines.get(name) if scope else None
    events = [event for event in scope.events.values() if name in event.resources] if scope else []
    state = f"it is {machine.power}" if machine else "it is gone"
    polled = "" if scope and scope.enabled else "; nobody polls there, so nothing is announced"
    coming = ", ".join(f"{event.type} ({event.status})" for event in events) or "nothing"
    return Explanation(
        kind="machine",
        id=name,
        title=f"{name} in {scope.id}" if scope else name,
        summary=f"{state[0].upper()}{state[1:]}; announced for it: {coming}{polled}.",
        awaits="; ".join(f"event {one.id[:8]}: {awaited(one, now)}" for one in events),
        steps=_steps(entries),
        events=tuple(event_histories(entries).values()),
    )


# --- What is awaited ----------------------------------------------------------------------------


def awaited(event: Event, now: float) -> str:
    """What an event that is there waits for."""
    if event.status is EventStatus.STARTED:
        return f"the {event.impact} of {_some(event.resources)} to be carried out"
    left = f"NotBefore, {iso(event.not_before)[11:19]}, in {spoken(event.not_before - now)}"
    if event.impact is None:
        return f"{left}; it is advice, and nothing will follow"
    if not event.approved_by:
        others = f" and of {_some(event.awaits)}" if event.awaits else ""
        return f"an approval by a machine of its scope{others}, or {left}"
    if event.awaits:
        return f"approvals in {_some(event.awaits)}, which are hit together with it, or {left}"
    return f"earlier deletes of the set that are neither approved nor timed out, or {left}"


# --- Sentences ----------------------------------------------------------------------------------


def _summary(life: EventHistory, event: Event | None) -> str:
    if event is not None:
        return f"{event.status} since {_clock(life.started_at or life.created_at)}."
    if life.ended is FactType.CANCELLED:
        return f"Cancelled: {life.ended_why}."
    if life.ended is FactType.LAPSED:
        return "Over: it was advice, and nothing followed."
    begun = life.created_at or life.started_at or 0.0
    waited = spoken((life.started_at or begun) - begun)
    why = "its approval" if life.started_why == "approved" else "NotBefore"
    how = f"it started after {waited}, at {why}" if life.not_before else "it came without notice"
    failed = f"; {len(life.failed)} of its impacts failed" if life.failed else ""
    lasted = spoken((life.ended_at or begun) - (life.started_at or begun))
    return f"Over: {how}, and took {lasted}{failed}."


def _steps(entries: Iterable[JournalEntry]) -> tuple[ExplanationStep, ...]:
    steps: list[ExplanationStep] = []
    began: dict[tuple[str, str], float] = {}
    for entry in entries:
        line = entry.line
        fact = line.fact
        if fact.did is FactType.BEGUN:
            began[fact.event, fact.machine] = line.at
        took = line.at - began.get((fact.event, fact.machine), line.at)
        text = _sentence(entry, took)
        steps.append(
            ExplanationStep(
                at=line.at, did=fact.did, actor=line.actor, machine=fact.machine, text=text
            )
        )
    return tuple(steps)


_SENTENCES = {
    FactType.SCHEDULED: "{why}, was announced for {machines}",
    FactType.TOLD: "it was shown to {machines}",
    FactType.APPROVED: "it was approved by {actor}",
    FactType.PEER_APPROVED: "it was approved in {why}, which is hit together with it",
    FactType.STARTED: "it started for {machines}, {why}",
    FactType.BEGUN: "the {why} of {machines} began",
    FactType.CARRIED_OUT: "it was carried out on {machines}, after {took}",
    FactType.FAILED: "it failed for {machines}, after {took}: {why}",
    FactType.CANCELLED: "it was taken back: {why}",
    FactType.LAPSED: "its time passed; it was advice, and nothing followed",
    FactType.ENDED: "it is over",
    FactType.OPERATION_ACCEPTED: "it was asked for by {actor} ({why}), and accepted",
    FactType.OPERATION_ENDED: "the operation ended: {why}",
}
_STARTS = {"approved": "because it was approved", "NotBefore": "because NotBefore was reached"}


def _sentence(entry: JournalEntry, took: float) -> str:
    fact, actor = entry.line.fact, entry.line.actor
    machines = _some(fact.machine.split(","))
    known = _SENTENCES.get(fact.did)
    if known:
        why = _STARTS.get(fact.why, fact.why)
        return known.format(actor=actor, machines=machines, why=why, took=spoken(took))
    about = f" {machines}" if fact.machine else ""
    return f"{_spaced(fact.did)}{about}" + (f" ({fact.why})" if fact.why else "")


def _spaced(did: FactType) -> str:
    """`MachineAdded` as words: machine added."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in did.value).strip()


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _clock(moment: float | None) -> str:
    return iso(int(moment or 0))[11:19]
