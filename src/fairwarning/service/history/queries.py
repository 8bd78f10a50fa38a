"""Reads what stories are made of. Bounded, however long the journal is: see `docs/benchmarks`."""

from fairwarning.core.decision import FactType
from fairwarning.core.errors import NotFound
from fairwarning.core.model import Event, Operation, Ref, Scope
from fairwarning.service.fleet import Fleet
from fairwarning.service.history import explanations
from fairwarning.service.history.events import EventHistory, JournalEntry, event_histories
from fairwarning.service.history.explanations import Explanation
from fairwarning.service.lookup import machine_called

_LINES = 5000  # of one event or operation, and before an operation's acceptance
_SOON_LINES = 50_000  # after it
_MACHINE_LINES = 1000  # of the scope of a machine


async def event_history(fleet: Fleet, name: str) -> tuple[EventHistory, Event | None]:
    """What became of an event, and the event itself if it is still there."""
    return await _life(fleet, await _lines_of_event(fleet, name))


async def _life(fleet: Fleet, entries: list[JournalEntry]) -> tuple[EventHistory, Event | None]:
    (life,) = event_histories(entries).values()
    scope = await fleet.reader.read(Scope, life.scope)
    return life, scope.events.get(life.id) if scope else None


async def explain_event(fleet: Fleet, name: str) -> Explanation:
    """The story of an event."""
    entries = await _lines_of_event(fleet, name)
    life, live = await _life(fleet, entries)
    operation = await fleet.reader.read(Operation, life.operation)
    return explanations.explain_event(entries, live, operation, fleet.clock.now())


async def explain_operation(fleet: Fleet, name: str) -> Explanation:
    """The story of an operation."""
    found = await fleet.reader.read(Operation, name)
    if found is None:
        raise NotFound("UnknownOperation", f"there is no operation {name[:60]!r}")
    entries = await _lines_of_operation(fleet, name)
    scopes = await _scopes(fleet, entries)
    live = [one for scope in scopes for one in scope.events.values() if one.operation == name]
    return explanations.explain_operation(entries, found, live, fleet.clock.now())


async def operation_scopes(fleet: Fleet, name: str) -> list[Scope]:
    """The scopes that an operation is about, as far as they are still there."""
    return await _scopes(fleet, await _lines_of_operation(fleet, name))


async def _scopes(fleet: Fleet, entries: list[JournalEntry]) -> list[Scope]:
    names = {entry.line.entity[1] for entry in entries if entry.line.entity[0] is Scope}
    found = [await fleet.reader.read(Scope, name) for name in sorted(names)]
    return [scope for scope in found if scope]


async def explain_machine(fleet: Fleet, name: str) -> Explanation:
    """The story of a machine: its newest lines; also when it is gone, if its scope is known."""
    scope_name, own = await _place(fleet, name)
    scope = await fleet.reader.read(Scope, scope_name)
    newest = await fleet.store.latest_lines(_MACHINE_LINES, entity=(Scope, scope_name))
    entries = [entry for entry in reversed(newest) if _concerns(entry, own)]
    if not entries:
        raise NotFound("UnknownMachine", f"there is no machine {name[:60]!r}")
    return explanations.explain_machine(entries, own, scope, fleet.clock.now())


async def _place(fleet: Fleet, name: str) -> tuple[str, str]:
    """Scope and name. One that is gone was a scope of its own, or is named with its scope."""
    try:
        place = await machine_called(fleet, name)
    except NotFound:
        scope, _, machine = name.rpartition("/")
        return scope or name, machine
    return place.scope, place.machine.name


def _concerns(entry: JournalEntry, machine: str) -> bool:
    """Whether a line is news of a machine; what Azure's tools call it is none."""
    fact = entry.line.fact
    named = fact.did is FactType.MACHINE_CHANGED and fact.why.startswith("is ")
    return machine in fact.machine.split(",") and not named


async def _lines_of_event(fleet: Fleet, name: str) -> list[JournalEntry]:
    entries = await fleet.store.journal(event=name.upper(), limit=_LINES)
    entries = [entry for entry in entries if entry.line.entity[0] is Scope]
    if not entries:
        raise NotFound("UnknownEvent", f"there never was an event {name[:60]!r}")
    return entries


async def _lines_of_operation(fleet: Fleet, name: str) -> list[JournalEntry]:
    """Its own lines, those beside its acceptance, and the whole lives of its events.

    All that an operation brings about at once is decided, and so journaled, in one go with its
    acceptance; what follows later belongs to an event, or comes soon after.
    """
    ref: Ref = (Operation, name)
    own = await fleet.store.journal(entity=ref, limit=_LINES)
    found = {entry.number: entry for entry in own}
    accepted = [entry.number for entry in own if entry.line.fact.did is FactType.OPERATION_ACCEPTED]
    for number in accepted[:1]:
        near = await fleet.store.operation_lines(
            name, after=number - _LINES, before=number + _SOON_LINES, limit=_LINES
        )
        found |= {entry.number: entry for entry in near}
    events = dict.fromkeys(entry.line.fact.event for entry in found.values())
    for one in filter(None, events):
        lines = await fleet.store.journal(event=one, limit=_LINES)
        found |= {entry.number: entry for entry in lines}
    return [found[number] for number in sorted(found)]
