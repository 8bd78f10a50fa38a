"""Reads the journal lines that explanations need. Every read is bounded (`docs/benchmarks`)."""

from fairwarning.core.decision import CARRIED_OUT, FactType
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
_SCOPES = 256  # read at once


async def event_history(fleet: Fleet, name: str) -> tuple[EventHistory, Event | None]:
    """The history of an event, and the event itself unless it has ended."""
    return await _history(fleet, name.upper(), await _lines_of_event(fleet, name.upper()))


async def _history(
    fleet: Fleet, name: str, entries: list[JournalEntry]
) -> tuple[EventHistory, Event | None]:
    if entries:
        (history,) = event_histories(entries).values()
        scope = await fleet.reader.read(Scope, history.scope)
    else:
        scope = await _scope_of_live_event(fleet, name)
        if scope is None:
            raise NotFound("UnknownEvent", f"the journal has no event {name[:60]!r}")
        history = EventHistory(id=name, scope=scope.id)
    event = scope.events.get(history.id) if scope else None
    if event is not None:
        history.complete_from(event)
    return history, event


async def _scope_of_live_event(fleet: Fleet, name: str) -> Scope | None:
    """The scope of an event whose lines were all dropped; None if there is no such event."""
    oldest = await fleet.reader.journal(limit=1)
    if oldest and oldest[0].number == 1:
        return None  # no line was dropped
    after = ""
    while names := await fleet.reader.scopes_with_events(after, _SCOPES):
        refs: list[Ref] = [(Scope, scope) for scope in names]
        for scope in (await fleet.reader.read_all(refs)).values():
            if isinstance(scope, Scope) and name in scope.events:
                return scope
        after = names[-1]
    return None


async def explain_event(fleet: Fleet, name: str) -> Explanation:
    """Explain an event, also after it has ended."""
    entries = await _lines_of_event(fleet, name.upper())
    history, event = await _history(fleet, name.upper(), entries)
    operation = await fleet.reader.read(Operation, history.operation)
    return explanations.explain_event(history, entries, event, operation, fleet.clock.now())


async def read_operation(fleet: Fleet, name: str) -> Operation:
    """An operation that has not been dropped."""
    operation = await fleet.reader.read(Operation, name)
    if operation is None:
        raise NotFound(
            "UnknownOperation",
            f"there is no operation {name[:60]!r}; those that ended are dropped after "
            "[operations] keep_days of the fleet file",
        )
    return operation


async def explain_operation(fleet: Fleet, name: str) -> Explanation:
    """Explain an operation."""
    state = await read_operation(fleet, name)
    entries = await _lines_of_operation(fleet, name)
    scopes = await _scopes(fleet, entries)
    events = [event for scope in scopes for event in scope.events.values()]
    events = [event for event in events if event.operation == name]
    return explanations.explain_operation(entries, state, events, fleet.clock.now())


async def operation_scopes(fleet: Fleet, name: str) -> list[Scope]:
    """The scopes that an operation concerns, without those that were removed."""
    return await _scopes(fleet, await _lines_of_operation(fleet, name))


async def failed_impacts(fleet: Fleet, operation: str) -> list[JournalEntry]:
    """The journal lines of an operation's failures, without those that a late report took back."""
    failed: dict[tuple[Ref, tuple[str, ...]], JournalEntry] = {}
    for entry in await _lines_of_operation(fleet, operation):
        fact = entry.line.fact
        impact = (entry.line.entity, fact.machines)
        if fact.type is FactType.IMPACT_FAILED and fact.operation == operation:
            failed[impact] = entry
        elif fact.type is FactType.REPORTED_LATE and fact.detail == CARRIED_OUT:
            failed.pop(impact, None)
    return list(failed.values())


async def _scopes(fleet: Fleet, entries: list[JournalEntry]) -> list[Scope]:
    names = {entry.line.entity[1] for entry in entries if entry.line.entity[0] is Scope}
    scopes = [await fleet.reader.read(Scope, name) for name in sorted(names)]
    return [scope for scope in scopes if scope]


async def explain_machine(fleet: Fleet, name: str) -> Explanation:
    """Explain the newest lines of a machine; also of a deleted one, if lines of it are left."""
    scope_name, machine = await _locate(fleet, name)
    scope = await fleet.reader.read(Scope, scope_name)
    newest = await fleet.reader.latest_lines(_MACHINE_LINES, entity=(Scope, scope_name))
    entries = [entry for entry in reversed(newest) if _concerns(entry, machine)]
    if not entries and (scope is None or machine not in scope.machines):
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
    entries = await fleet.reader.journal(event=name, limit=_LINES)
    return [entry for entry in entries if entry.line.entity[0] is Scope]


async def _lines_of_operation(fleet: Fleet, name: str) -> list[JournalEntry]:
    """The operation's own lines, lines near its acceptance, and the histories of its events.

    The immediate effects of an operation are journaled in the same batch as its acceptance. Later
    effects belong to one of its events or follow soon. An earlier acceptance is that of a dropped
    operation of the same id.
    """
    own = await fleet.reader.journal(entity=(Operation, name), limit=_LINES)
    accepted = [entry for entry in own if entry.line.fact.type is FactType.OPERATION_ACCEPTED]
    lines = {entry.number: entry for entry in own}
    for newest in accepted[-1:]:
        number, at = newest.number, newest.line.at
        near = await fleet.reader.operation_lines(
            name, after=number - _LINES, before=number + _FOLLOWING_LINES, limit=_LINES
        )
        both = {entry.number: entry for entry in (*own, *near)}
        lines = {n: entry for n, entry in both.items() if n >= number or entry.line.at == at}
    events = dict.fromkeys(entry.line.fact.event for entry in lines.values())
    for event in filter(None, events):
        of_event = await fleet.reader.journal(event=event, limit=_LINES)
        lines |= {entry.number: entry for entry in of_event}
    return [lines[number] for number in sorted(lines)]
