"""Who asks (M22): the connection says it, and nothing in the request ever does."""

import asyncio
import sys
from collections.abc import Callable
from socket import inet_aton, inet_ntoa

from fairwarning.core.model import Machine, Power, Scope
from fairwarning.service.documents import PublishedScope
from fairwarning.service.fleet import Fleet

Key = str | tuple[str, str]
"""An address that was connected to, one that was connected from, or a scope and a name."""

CallerResolver = Callable[[asyncio.BaseTransport], Key]
"""How connections of one listener tell whose they are."""

_FIRST = 0x7F010000  # 127.1.0.0; a machine's number added gives its address
_FROM = "from "
_UNKNOWN_KEYS = 4096
_FORGET_AFTER = 2  # looks at who is quiet
_LAST = 0x7FFEFFFF  # 127.254.255.255; what follows ends with a broadcast address


def loopback_address(number: int) -> str | None:
    """The address that is this machine's alone; None past the last (sixteen million)."""
    address = _FIRST + number
    return inet_ntoa(address.to_bytes(4)) if _FIRST < address <= _LAST else None


def _number(address: str) -> int:
    """The machine an address belongs to; 0 if none can have it."""
    number = int.from_bytes(inet_aton(address)) - _FIRST
    return number if 0 < number <= _LAST - _FIRST else 0


def by_local_address(transport: asyncio.BaseTransport) -> Key:
    """Each machine has an address of its own in 127.0.0.0/8; one listener takes them all."""
    address: str = transport.get_extra_info("sockname")[0]
    return address


def by_source_address(transport: asyncio.BaseTransport) -> Key:
    """On a host with real guests: where the connection comes from, as the fleet file has it."""
    address: str = transport.get_extra_info("peername")[0]
    return _FROM + address.partition("%")[0].removeprefix("::ffff:")


def for_machine(scope: str, machine: str) -> CallerResolver:
    """A listener of one machine alone: a Unix socket, or one inside a network namespace."""
    key = (scope, machine)
    return lambda _: key


class Listener:
    """A listener, and how its connections tell whose they are."""

    taking: asyncio.Server

    def __init__(self, naming: CallerResolver) -> None:
        self.naming = naming


class Caller:
    """A machine that asks. All its connections share one."""

    __slots__ = (
        "_born", "allowed", "checked", "connections", "era", "name", "polls", "published",
        "quiet", "scope",
    )  # fmt: skip

    def __init__(
        self, scope: str, machine: Machine, published: PublishedScope, allowed: int
    ) -> None:
        self.scope = scope
        self.name = machine.name
        self.published = published
        self.polls = 0  # since they were last collected
        self.allowed = allowed  # so many, less what else was asked for
        self.checked: Scope | None = None
        """The state of the scope in which this caller was found to be in order."""
        self.era = -1.0  # when the feature was switched on, as of the last document sent
        self.connections = 0
        self.quiet = 0
        self._born = machine.created_at
        if (shown := published.scope) and (same := self.machine()):
            # There may be a million callers: what the document has anyway is not kept twice.
            self.scope, self.name, self._born = shown.id, same.name, same.created_at

    def machine(self) -> Machine | None:
        """The machine as it is now; None once it is gone, or another of its name has come."""
        scope = self.published.scope
        machine = scope.machines.get(self.name) if scope else None
        return machine if machine and machine.created_at == self._born else None

    def runs(self) -> bool:
        """A machine that is gone or switched off cannot ask; whoever does is not it (IL11)."""
        machine = self.machine()
        return machine is not None and machine.power is Power.RUNNING


class Callers:
    """All machines that have asked lately."""

    def __init__(self, fleet: Fleet, allowed: int) -> None:
        self._fleet = fleet
        self._allowed = allowed
        self.active: list[Caller] = []
        """Those who have polled since they were last collected: a second costs as much as was
        asked for in it, and not as much as there are machines."""
        self._tired: set[Caller] = set()  # who may ask for less than at first
        self.known: dict[Key, Caller] = {}
        self._unknown: set[Key] = set()  # until the fleet changes: strangers cost no look-up
        self._changes = 0
        fleet.watchers.append(self._changed)

    def _changed(self) -> None:
        """Who was unknown may have come to be."""
        self._changes += 1
        self._unknown.clear()

    async def find(self, key: Key) -> Caller | None:
        """The machine behind a key, from the store if need be."""
        caller = self.known.get(key)
        if caller is not None and caller.machine() is not None:
            return caller
        self.known.pop(key, None)
        if key in self._unknown:
            return None
        changes = self._changes
        place = await self._place(key)
        if place is None:
            if changes == self._changes and len(self._unknown) < _UNKNOWN_KEYS:
                self._unknown.add(key)
            return None
        scope, machine = place
        published = await self._fleet.documents.fetch(scope)
        found = self.known.get(key)  # somebody else may have been quicker
        if found is None:
            found = self.known[key] = Caller(scope, machine, published, self._allowed)
        return found

    async def _place(self, key: Key) -> tuple[str, Machine] | None:
        if isinstance(key, tuple):
            scope = await self._fleet.reader.read(Scope, key[0])
            machine = scope.machines.get(key[1]) if scope else None
            return (key[0], machine) if machine else None
        if key.startswith(_FROM):
            places = await self._fleet.reader.find_machines(address=key.removeprefix(_FROM))
        else:
            places = await self._fleet.reader.find_machines(number=_number(key))
        return (places[0].scope, places[0].machine) if places else None

    def collect(self) -> int:
        """Tell the fleet who polled; how often that was, in all.

        A poll only counts up. What it means is worked out here, once a second and whenever time is
        about to be made to pass.
        """
        now, total = self._fleet.clock.now(), 0
        active = self.active.copy()
        self.active.clear()
        for caller in active:
            if caller.polls:
                if scope := caller.published.scope:
                    self._fleet.polls.record(scope, now)
                total += caller.polls
                caller.allowed -= caller.polls
                caller.polls = caller.quiet = 0
                self.tire(caller)
        return total

    def tire(self, caller: Caller) -> None:
        """It has asked, and is to get that back in time."""
        if self._allowed != sys.maxsize:
            self._tired.add(caller)

    def allow(self, more: int, most: int) -> None:
        """A second has passed: so many requests more for each, but never more than `most`."""
        for caller in tuple(self._tired):
            caller.allowed = min(caller.allowed + more, most)
            if caller.allowed == most:
                self._tired.discard(caller)

    def recheck(self) -> None:
        """Something that concerns callers has changed beside the fleet."""
        for caller in self.known.values():
            caller.checked = None

    def forget_quiet(self) -> None:
        """Let go of who has not asked since this was called twice."""
        for key, caller in list(self.known.items()):
            caller.quiet += 1
            if caller.quiet > _FORGET_AFTER and not caller.connections:
                del self.known[key]
