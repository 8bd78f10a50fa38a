"""Operations, the newest first, in the order in which the journal has them."""

from fairwarning.core.decision import Fact, FactType
from fairwarning.core.model import Operation, Ref, ScaleSet, Scope
from fairwarning.core.record import record
from fairwarning.service.fleet import Fleet
from fairwarning.store.store import JournalEntry

_PAGE = 100
_LINES = 20_000  # searched for a page, which may then be short
_NEAR = 500  # lines around the acceptance of an operation, in which its machines are named


@record
class OperationPlace:
    """Which operations a list has: those on a machine, on a scale set, or all."""

    refs: frozenset[Ref] = frozenset()  # the entities whose lines name them; empty: all
    machine: str = ""

    def names(self, entry: JournalEntry) -> bool:
        """Whether this is a line at which a list has the operation that it names."""
        fact = entry.line.fact
        if not self.refs:
            return fact.type is FactType.OPERATION_ACCEPTED
        if not fact.operation or entry.line.entity not in self.refs:
            return False
        of_set = entry.line.entity[0] is ScaleSet
        return (of_set or _is_first(fact)) and (not self.machine or self.machine in fact.machines)


EVERYWHERE = OperationPlace()


def _is_first(fact: Fact) -> bool:
    """Whether an operation announces an event, or begins an impact without one."""
    return bool(fact.announcement or (fact.type is FactType.IMPACT_BEGUN and not fact.event))


def on_machine(scope: str, machine: str) -> OperationPlace:
    """Operations with an impact on this machine."""
    return OperationPlace(refs=frozenset({(Scope, scope)}), machine=machine)


def on_set(scale_set: ScaleSet) -> OperationPlace:
    """Operations on this scale set or on machines of it."""
    groups = {(Scope, name) for name in scale_set.groups}
    return OperationPlace(refs=frozenset({(ScaleSet, scale_set.id), *groups}))


async def newest_operations(
    fleet: Fleet, status: str, before: int | None, limit: int, place: OperationPlace = EVERYWHERE
) -> tuple[list[Operation], int | None]:
    """Return operations, and the line before which the next page begins, if there may be one.

    A status selects those that have it. Dropped operations are left out.
    """
    matching: list[Operation] = []
    listed_at: dict[str, int] = {}  # the line of an operation at which the list has it
    (entity,) = place.refs if len(place.refs) == 1 else (None,)
    for _ in range(0, _LINES, _PAGE):
        lines = await fleet.reader.latest_lines(_PAGE, before=before, entity=entity)
        naming = [entry for entry in lines if place.names(entry)]
        refs: list[Ref] = [(Operation, entry.line.fact.operation) for entry in naming]
        operations = await fleet.reader.read_all(refs)
        for ref, entry in zip(refs, naming, strict=True):
            operation = operations[ref]
            if not isinstance(operation, Operation) or status not in {"", operation.status}:
                continue
            if operation.id not in listed_at:
                listed_at[operation.id] = await _listed_at(fleet, operation, entry, place)
            if listed_at[operation.id] == entry.number:
                matching.append(operation)
                if len(matching) == limit:
                    return matching, entry.number
        if len(lines) < _PAGE:
            return matching, None
        before = lines[-1].number
    return matching, before


async def _listed_at(
    fleet: Fleet, operation: Operation, last: JournalEntry, place: OperationPlace
) -> int:
    """The number of the first line that names the operation; `last` is the last one that does."""
    if not place.refs:  # one line for each operation of this name: others were dropped
        is_its_own = int(last.line.at) == int(operation.accepted_at)
        return last.number if is_its_own else 0
    near = await _lines_near_acceptance(fleet, operation.id, operation.accepted_at)
    return next((line.number for line in near if place.names(line)), last.number)


async def operations_by_prefix(fleet: Fleet, prefix: str, limit: int) -> list[Operation]:
    """Return operations whose ids begin so, by id."""
    exact = await fleet.reader.read(Operation, prefix)
    names = await fleet.reader.list_ids(Operation, prefix, limit)
    refs: list[Ref] = [(Operation, name) for name in names if name.startswith(prefix)]
    others = (await fleet.reader.read_all(refs)).values()
    candidates = [exact, *others]
    return [operation for operation in candidates if isinstance(operation, Operation)][:limit]


async def first_machines(
    fleet: Fleet, operation: str, accepted_at: float, most: int
) -> list[tuple[str, str]]:
    """Return the scopes and names of the machines that an operation concerned at first."""
    machines: dict[tuple[str, str], None] = {}
    for entry in await _lines_near_acceptance(fleet, operation, accepted_at):
        scope, fact = entry.line.entity[1], entry.line.fact
        if _is_first(fact):
            machines |= dict.fromkeys((scope, name) for name in fact.machines)
    return list(machines)[:most]


async def _lines_near_acceptance(
    fleet: Fleet, operation: str, accepted_at: float
) -> list[JournalEntry]:
    """The lines of an operation near the one that accepted it, in order."""
    own = await fleet.reader.journal(entity=(Operation, operation), limit=_PAGE)
    for entry in own:
        if int(entry.line.at) == int(accepted_at):
            return await fleet.reader.operation_lines(
                operation,
                after=max(entry.number - _NEAR, 0),
                before=entry.number + _NEAR,
                limit=_PAGE,
            )
    return []
