"""All scopes of the fleet in memory, for lists, filters and counts.

The index is built when it is first used, brought up to date by reading only what has changed
since, and forgotten when nobody has used it for a while.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from time import monotonic

from fairwarning.core.model import Event, Power, Ref, Scope
from fairwarning.service.fleet import Fleet
from fairwarning.service.listing.filters import MachineFilter
from fairwarning.service.lookup import MachineLocation

_PAGE = 1000
_KEPT_SECONDS = 300.0  # without use
_GAP_SECONDS = 1800.0
"""Of fleet time. Retention keeps removals for an hour; after a longer gap all is read again."""


class FleetIndex:
    """The scopes, machines and events of a fleet, as of the last `refresh`."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._lock = asyncio.Lock()
        self._used_at = 0.0
        self._forget()

    def _forget(self) -> None:
        self.scopes: dict[str, Scope] = {}
        self.power: Counter[Power] = Counter()
        """Machines by power state."""
        self.unpolled: set[str] = set()
        """Scopes with machines of which none polls: they get no notice."""
        self._eventful: set[str] = set()
        self._numbers: dict[tuple[str, str], int] = {}
        self._position: int | None = None
        self._read_at = 0.0

    async def refresh(self) -> None:
        """Read what has changed since the last call."""
        if not self._used_at:
            asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._forget_if_unused)
        self._used_at = monotonic()
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

    def _forget_if_unused(self) -> None:
        left = self._used_at + _KEPT_SECONDS - monotonic()
        if left > 0 or self._lock.locked():
            asyncio.get_running_loop().call_later(max(left, 1.0), self._forget_if_unused)
        else:
            self._used_at = 0.0
            self._forget()

    # --- Reading ---

    async def _build(self) -> None:
        after = ""
        while names := await self._fleet.store.list_ids(Scope, after, _PAGE):
            await self._read(names, numbers=False)
            after = names[-1]
        number = 0
        while locations := await self._fleet.store.list_machines(number, _PAGE):
            for location in locations:
                self._numbers[location.scope, location.machine.name] = location.number
            number = locations[-1].number

    async def _read(self, names: list[str], *, numbers: bool = True) -> None:
        refs: list[Ref] = [(Scope, name) for name in names]
        for (_, name), scope in (await self._fleet.reader.read_all(refs)).items():
            assert scope is None or isinstance(scope, Scope)
            before = self.scopes.get(name)
            self._replace(name, before, scope)
            if numbers and scope and (before is None or scope.machines.keys() - before.machines):
                for location in await self._fleet.store.find_machines(scope=name):
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
        _keep(self._eventful, name, holds=bool(scope and scope.events))
        _keep(self.unpolled, name, holds=bool(scope and scope.machines and not scope.enabled))

    # --- Contents ---

    def events(self) -> Iterator[tuple[Scope, Event]]:
        """All events, with their scopes."""
        for name in self._eventful:
            scope = self.scopes[name]
            for event in scope.events.values():
                yield scope, event

    def find_machines(self, wanted: MachineFilter) -> list[MachineLocation]:
        """The machines that a filter allows, by number."""
        locations = [
            MachineLocation(self._numbers.get((scope.id, machine.name), 0), scope.id, machine)
            for scope in self._scopes_for(wanted)
            for machine in scope.machines.values()
            if wanted.allows(scope, machine)
        ]
        return sorted(locations, key=lambda location: location.number)

    def _scopes_for(self, wanted: MachineFilter) -> Iterable[Scope]:
        """The scopes in which the wanted machines can be."""
        if wanted.scope:
            return (self.scopes[wanted.scope],) if wanted.scope in self.scopes else ()
        names = self.unpolled if wanted.not_polled else self.scopes
        return [self.scopes[name] for name in names]


def _keep(names: set[str], name: str, *, holds: bool) -> None:
    if holds:
        names.add(name)
    else:
        names.discard(name)
