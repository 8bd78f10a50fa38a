"""Reads the journal lines that explanations need. Every read is bounded (`docs/benchmarks`)."""

from fairwarning.core.decision import FactType
from fairwarning.core.errors import NotFound
from fairwarning.core.model import Event, Operation, Ref, Scope
from fairwarning.service.fleet import Fleet
from fairwarning.service.history import explanations
from fairwarning.service.history.events import EventHistory, JournalEntry, event_histories
from fairwarning.service.history.explanations import Explanation
from fairwarning.service.lookup import find_machine

_LINES = 5000  # of one event or operation, and before an operation was accepted
_FOLLOWING_LINES = 50_000  # searched after an operation was accepted
_MACHINE_LINES = 1000  # of a machine's scope


async def event_history(fleet: Fleet, name: str) -> tuple[EventHistory, Event | None]:
    """The history of an event, and the event itself unless it has ended."""
    return await _history(fleet, await _lines_of_event(fleet, name))


async def _history(fleet: Fleet, entries: list[JournalEntry]) -> tuple[EventHistory, Event | None]:
    (history,) = event_histories(entries).values()
    scope = await fleet.reader.read(Scope, history.scope)
    return history, scope.events.get(history.id) if scope else None


async def explain_event(fleet: Fleet, name: str) -> Explanation:
    """Explain an event, also after it has ended."""
    entries = await _lines_of_event(fleet, name)
    history, event = await _history(fleet, entries)
    operation = await fleet.reader.read(Operation, history.operation)
    return explanations.explain_event(entries, event, operation, fleet.clock.now())


async def explain_operation(fleet: Fleet, name: str) -> Explanation:
    """Explain an operation."""
    state = await fleet.reader.read(Operation, name)
    if state is None:
        raise NotFound("UnknownOperation", f"there is no operation {name[:60]!r}")
    entries = await _lines_of_operation(fleet, name)
    scopes = await _scopes(fleet, entries)
    events = [event for scope in scopes for event in scope.events.values()]
    events = [event for event in events if event.operation == name]
    return explanations.explain_operation(entries, state, events, fleet.clock.now())


async def operation_scopes(fleet: Fleet, name: str) -> list[Scope]:
    """The scopes that an operation concerns, without those that were removed."""
    return await _scopes(fleet, await _lines_of_operation(fleet, name))


async def _scopes(fleet: Fleet, entries: list[JournalEntry]) -> list[Scope]:
    names = {entry.line.entity[1] for entry in entries if entry.line.entity[0] is Scope}
    scopes = [await fleet.reader.read(Scope, name) for name in sorted(names)]
    return [scope for scope in scopes if scope]


async def explain_machine(fleet: Fleet, name: str) -> Explanation:
    """Explain the newest lines of a machine; also of a deleted one, if its scope is known."""
    scope_name, machine = await _locate(fleet, name)
    scope = await fleet.reader.read(Scope, scope_name)
    newest = await fleet.store.latest_lines(_MACHINE_LINES, entity=(Scope, scope_name))
    entries = [entry for entry in reversed(newest) if _concerns(entry, machine)]
    if not entries:
        raise NotFound("UnknownMachine", f"there is no machine {name[:60]!r}")
    return explanations.explain_machine(entries, machine, scope, fleet.clock.now())


async def _locate(fleet: Fleet, name: str) -> tuple[str, str]:
    """Scope and name. A deleted machine had a scope of its own, or is given as SCOPE/NAME."""
    try:
        location = await find_machine(fleet, name)
    except NotFound:
        scope, _, machine = name.rpartition("/")
        return scope or name, machine
    return location.scope, location.machine.name


def _concerns(entry: JournalEntry, machine: str) -> bool:
    """Whether a line belongs in a machine's history; its ARM resource id does not."""
    fact = entry.line.fact
    return machine in fact.machines and fact.type is not FactType.MACHINE_LINKED


async def _lines_of_event(fleet: Fleet, name: str) -> list[JournalEntry]:
    entries = await fleet.store.journal(event=name.upper(), limit=_LINES)
    entries = [entry for entry in entries if entry.line.entity[0] is Scope]
    if not entries:
        raise NotFound("UnknownEvent", f"the journal has no event {name[:60]!r}")
    return entries


async def _lines_of_operation(fleet: Fleet, name: str) -> list[JournalEntry]:
    """The operation's own lines, lines near its acceptance, and the histories of its events.

    The immediate effects of an operation are journaled in the same batch as its acceptance. Later
    effects belong to one of its events or follow soon.
    """
    ref: Ref = (Operation, name)
    own = await fleet.store.journal(entity=ref, limit=_LINES)
    lines = {entry.number: entry for entry in own}
    accepted = [e.number for e in own if e.line.fact.type is FactType.OPERATION_ACCEPTED]
    for number in accepted[:1]:
        near = await fleet.store.operation_lines(
            name, after=number - _LINES, before=number + _FOLLOWING_LINES, limit=_LINES
        )
        lines |= {entry.number: entry for entry in near}
    events = dict.fromkeys(entry.line.fact.event for entry in lines.values())
    for event in filter(None, events):
        of_event = await fleet.store.journal(event=event, limit=_LINES)
        lines |= {entry.number: entry for entry in of_event}
    return [lines[number] for number in sorted(lines)]
