"""All scopes of the fleet in memory, for lists, filters and counts.

The index is built when it is first used, brought up to date by reading only what has changed
since, and forgotten when nobody has used it for a while.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter

from fairwarning.core.model import Event, Power, Ref, Scope, ScopeKind
from fairwarning.service.fleet import Fleet
from fairwarning.service.listing.filters import MachineFilter
from fairwarning.service.listing.groups import MachineGroups
from fairwarning.service.listing.kept import KeptWhileUsed
from fairwarning.service.lookup import MachineLocation

_number = attrgetter("number")
_PAGE = 1000
_SEARCHED = 500  # machines and scopes in a step
_GAP_SECONDS = 1800.0
"""Of fleet time. Retention keeps removals for an hour; after a longer gap all is read again."""


class FleetIndex(KeptWhileUsed):
    """The scopes, machines and events of a fleet, as of the last `refresh`."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet

    def _forget(self) -> None:
        self.scopes: dict[str, Scope] = {}
        self.power: Counter[Power] = Counter()
        """Machines by power state."""
        self.unpolled: set[str] = set()
        """Scopes with machines of which none polls: they get no notice."""
        self.groups = MachineGroups()
        self._eventful: set[str] = set()
        self._numbers: dict[tuple[str, str], int] = {}
        self._position: int | None = None
        self._read_at = 0.0

    async def refresh(self) -> None:
        """Read what has changed since the last call."""
        self._note_use()
        async with self._lock:
            now = self._fleet.clock.now()
            if not 0 <= now - self._read_at <= _GAP_SECONDS:
                self._forget()
            position = await self._fleet.store.position()
            if self._position is None:
                await self._build()
                self._position = position
            while self._position < position:
                changes = await self._fleet.store.changes_since(self._position, _PAGE)
                await self._read([change.scope for change in changes])
                self._position = changes[-1].position if len(changes) == _PAGE else position
            self._read_at = now

    # --- Reading ---

    async def _build(self) -> None:
        after = ""
        while names := await self._fleet.reader.list_ids(Scope, after, _PAGE):
            await self._read(names, numbers=False)
            after = names[-1]
        number = 0
        while locations := await self._fleet.reader.list_machines(number, _PAGE):
            for location in locations:
                self._numbers[location.scope, location.machine.name] = location.number
            number = locations[-1].number

    async def _read(self, names: list[str], *, numbers: bool = True) -> None:
        refs: list[Ref] = [(Scope, name) for name in names]
        for (_, name), scope in (await self._fleet.reader.read_each(refs)).items():
            assert scope is None or isinstance(scope, Scope)
            before = self.scopes.get(name)
            self._replace(name, before, scope)
            if numbers and scope and _identities(scope) - _identities(before):
                for location in await self._fleet.reader.find_machines(scope=name):
                    self._numbers[name, location.machine.name] = location.number

    def _replace(self, name: str, before: Scope | None, scope: Scope | None) -> None:
        for machine in before.machines.values() if before else ():
            self.power[machine.power] -= 1
            if scope is None or machine.name not in scope.machines:
                self._numbers.pop((name, machine.name), None)
        for machine in scope.machines.values() if scope else ():
            self.power[machine.power] += 1
        if scope is None:
            self.scopes.pop(name, None)
        else:
            self.scopes[name] = scope
        self.groups.replace(before, scope)
        _keep(self._eventful, name, holds=bool(scope and scope.events))
        _keep(self.unpolled, name, holds=bool(scope and scope.machines and not scope.enabled))

    # --- Contents ---

    def number(self, scope: str, machine: str) -> int:
        """The number of a machine: machines are counted in the order of their creation."""
        return self._numbers.get((scope, machine), 0)

    def set_of(self, scope: str) -> str:
        """The scale set of a scope, or the scope itself; empty if it is a standalone machine's."""
        known = self.scopes.get(scope)
        if known is None:
            return scope.partition("/")[0]  # it was deleted
        return "" if known.kind is ScopeKind.STANDALONE else known.owner or known.id

    def events(self) -> Iterator[tuple[Scope, Event]]:
        """All events, with their scopes."""
        for name in self._eventful:
            scope = self.scopes[name]
            for event in scope.events.values():
                yield scope, event

    async def find_machines(self, wanted: MachineFilter) -> list[MachineLocation]:
        """The machines that a filter allows, by number."""
        matching: list[MachineLocation] = []
        step: list[MachineLocation] = []
        searched = 0
        for scope in self._scopes_for(wanted):
            for machine in scope.machines.values():
                if wanted.allows(scope, machine):
                    number = self.number(scope.id, machine.name)
                    step.append(MachineLocation(number, scope.id, machine))
            searched += 1 + len(scope.machines)
            if searched >= _SEARCHED:
                matching += sorted(step, key=_number)  # so that the last sort only merges
                step, searched = [], 0
                await self._fleet.reader.share.turn()
        return sorted(matching + step, key=_number)

    def _scopes_for(self, wanted: MachineFilter) -> Sequence[Scope]:
        """The scopes in which the wanted machines can be."""
        if wanted.scope:
            return (self.scopes[wanted.scope],) if wanted.scope in self.scopes else ()
        names = self.unpolled if wanted.not_polled else self.scopes
        return [self.scopes[name] for name in names]


def _identities(scope: Scope | None) -> set[tuple[str, float]]:
    """The name and creation of each machine: a machine created later has another number."""
    machines = scope.machines.values() if scope else ()
    return {(machine.name, machine.created_at) for machine in machines}


def _keep(names: set[str], name: str, *, holds: bool) -> None:
    if holds:
        names.add(name)
    else:
        names.discard(name)
