"""Previews: what an operation would do if it were started now, as the engine decides it."""

from dataclasses import dataclass

from fairwarning.console.api.section import created_events, decide
from fairwarning.console.page import words
from fairwarning.core.cascade import Outcome
from fairwarning.core.commands import Command
from fairwarning.core.decision import FactType
from fairwarning.core.model import Event, EventStatus, EventType, ImpactKind, Scope
from fairwarning.core.times import iso
from fairwarning.service.fleet import Fleet

_IMPACT_TEXTS = {
    ImpactKind.FREEZE: "Pauses {}",
    ImpactKind.REBOOT: "Reboots {}",
    ImpactKind.REDEPLOY: "Redeploys {} to another host",
    ImpactKind.EVICT: "Evicts {}",
    ImpactKind.DELETE: "Deletes {}",
    ImpactKind.REIMAGE: "Reimages {}",
    ImpactKind.STOP: "Powers off {}",
    ImpactKind.DEALLOCATE: "Deallocates {}",
    ImpactKind.START: "Powers on {}",
}


# The impacts that get an event if a machine in the scope polls. No other impact does (T4).
_WITH_NOTICE = frozenset(
    {
        ImpactKind.FREEZE,
        ImpactKind.REBOOT,
        ImpactKind.REDEPLOY,
        ImpactKind.EVICT,
        ImpactKind.DELETE,
    }
)


@dataclass(frozen=True)
class PreviewInput:
    """An input field of an operation."""

    name: str
    label: str
    default: str = ""
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class OperationPreview:
    """A button for an operation, with its preview and input fields."""

    action: str
    label: str
    preview: str
    kind: str = ""  # CSS class of the button
    fields: tuple[PreviewInput, ...] = ()


async def preview(fleet: Fleet, command: Command) -> str:
    """Describe what a command would do now; raises `Refused` as submitting it would."""
    now = fleet.clock.now()
    return _describe(await decide(fleet, command, now), now)


def _describe(outcome: Outcome, now: float) -> str:
    events_before: dict[str, Event] = {}
    unpolled = False
    for before, _ in outcome.changes.values():
        if isinstance(before, Scope):
            events_before |= before.events
            unpolled = unpolled or not before.enabled
    created = created_events(outcome)
    sentences = _describe_events(created, now)
    created_ids = {event.id for event in created}
    sentences += _describe_immediate(outcome, created_ids, unpolled=unpolled)
    gone = {line.fact.event for line in outcome.lines if line.fact.type is FactType.CANCELLED}
    if replaced := [event.type.value for event in events_before.values() if event.id in gone]:
        sentences.append(f"Replaces the pending {', '.join(replaced)}.")
    return " ".join(sentences)


def _describe_events(events: list[Event], now: float) -> list[str]:
    """Describe the created events, with one text for all that differ only in their machines."""
    machines_of: dict[tuple[EventType, EventStatus, int, ImpactKind | None], list[str]] = {}
    for event in events:
        key = (event.type, event.status, event.not_before, event.impact)
        machines_of.setdefault(key, []).extend(event.resources)
    sentences = []
    for (type_, status, not_before, impact), machines in machines_of.items():
        names = words.join_names(machines)
        text = (_IMPACT_TEXTS[impact] if impact else "Recommends moving workloads off {}").format(
            names
        )
        if status is EventStatus.STARTED:
            sentences.append(f"Starts a {type_} event without notice. {text} immediately.")
            continue
        notice = words.duration(int(not_before - now))
        latest = words.time_of_day(iso(not_before), iso(int(now)))
        when = f" when approved, or at {latest}" if impact else f" by {latest}"
        sentences.append(f"Schedules a {type_} event with {notice} notice. {text}{when}.")
    return sentences


def _describe_immediate(outcome: Outcome, created: set[str], *, unpolled: bool) -> list[str]:
    """Describe the impacts that start at once, without a created event."""
    impacts = [impact for impact in outcome.impacts if impact.event not in created]
    if not impacts:
        return []
    kind = impacts[0].kind
    names = words.join_names([impact.machine for impact in impacts])
    reason = ": no machine in its scope polls" if unpolled and kind in _WITH_NOTICE else ""
    return [f"{_IMPACT_TEXTS[kind].format(names)} immediately{reason}."]
