"""What an operation would lead to, said before it is asked for.

The rules themselves are asked: the command is decided as it would be, and nothing is committed. So
a button never promises what the engine would not do.
"""

from dataclasses import dataclass
from uuid import uuid4

from fairwarning.console.page import words
from fairwarning.core import cascade
from fairwarning.core.cascade import EntityNotLoaded, Outcome
from fairwarning.core.commands import Command, validate
from fairwarning.core.decision import FactType
from fairwarning.core.errors import Refused
from fairwarning.core.model import Entity, Event, EventStatus, EventType, ImpactKind, Ref, Scope
from fairwarning.core.times import iso
from fairwarning.service.fleet import Fleet

_DOES = {
    ImpactKind.FREEZE: "pauses",
    ImpactKind.REBOOT: "reboots",
    ImpactKind.REDEPLOY: "moves to another host and boots there",
    ImpactKind.EVICT: "is evicted",
    ImpactKind.DELETE: "is deleted",
    ImpactKind.REIMAGE: "gets its image anew",
    ImpactKind.STOP: "powers off",
    ImpactKind.DEALLOCATE: "gives its hardware back",
    ImpactKind.START: "powers on",
}


# What is announced where somebody polls; all else never is (T4).
_NOTICED = frozenset(
    {
        ImpactKind.FREEZE,
        ImpactKind.REBOOT,
        ImpactKind.REDEPLOY,
        ImpactKind.EVICT,
        ImpactKind.DELETE,
    }
)


@dataclass(frozen=True)
class PreviewText:
    """What would follow, in words; `refused` where it would not be taken at all."""

    text: str
    refused: bool = False


@dataclass(frozen=True)
class PreviewInput:
    """A setting of an operation."""

    name: str
    label: str
    standing: str = ""
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class OperationPreview:
    """An operation that may be asked for, and what it would lead to."""

    action: str
    label: str
    foreseen: PreviewText
    kind: str = ""  # how its button looks
    fields: tuple[PreviewInput, ...] = ()


def fresh() -> str:
    """A name for an operation that nobody has asked for yet."""
    return uuid4().hex


async def preview(fleet: Fleet, command: Command) -> PreviewText:
    """What this command would do if it were given now."""
    known: dict[Ref, Entity | None] = {}

    def get(ref: Ref) -> Entity | None:
        if ref not in known:
            raise EntityNotLoaded(ref)
        return known[ref]

    now = fleet.clock.now()
    try:
        validate(command)
        while True:
            try:
                return PreviewText(_told(cascade.run(command, now, get), now))
            except EntityNotLoaded as missing:
                known |= await fleet.reader.read_all([missing.ref])
    except Refused as refused:
        return PreviewText(refused.message, refused=True)


def _told(outcome: Outcome, now: float) -> str:
    standing: dict[str, Event] = {}
    left: dict[str, Event] = {}
    silent = False
    for before, after in outcome.changes.values():
        if isinstance(before, Scope):
            standing |= before.events
            silent = silent or not before.enabled
        if isinstance(after, Scope):
            left |= after.events
    born = [event for event in left.values() if event.id not in standing]
    said = _announced(born, now)
    said += _at_once(outcome, {event.id for event in born}, silent=silent)
    gone = {line.fact.event for line in outcome.lines if line.fact.type is FactType.CANCELLED}
    if replaced := [event.type.value for event in standing.values() if event.id in gone]:
        said.append(f"It takes the place of the pending {', '.join(replaced)}.")
    return " ".join(said)


def _announced(born: list[Event], now: float) -> list[str]:
    """A sentence for all that are announced alike."""
    alike: dict[tuple[EventType, EventStatus, int, ImpactKind | None], list[str]] = {}
    for event in born:
        key = (event.type, event.status, event.not_before, event.impact)
        alike.setdefault(key, []).extend(event.resources)
    said = []
    for (kind, status, not_before, impact), machines in alike.items():
        what = f"{words.names(machines)} {_DOES[impact] if impact else 'is advised to leave'}"
        if status is EventStatus.STARTED:
            said.append(f"{kind} without notice: {what} at once.")
            continue
        notice = words.span(not_before - int(now))
        latest = words.moment(iso(not_before), iso(int(now)))
        when = f" once approved, at {latest} at the latest" if impact else f", until {latest}"
        said.append(f"{kind} with {notice} notice: {what}{when}.")
    return said


def _at_once(outcome: Outcome, announced: set[str], *, silent: bool) -> list[str]:
    begun = [one for one in outcome.impacts if one.event not in announced]
    if not begun:
        return []
    what = f"{words.names([one.machine for one in begun])} {_DOES[begun[0].kind]}"
    why = ", as nobody polls in its scope" if silent and begun[0].kind in _NOTICED else ""
    return [f"At once{why}: {what}."]
