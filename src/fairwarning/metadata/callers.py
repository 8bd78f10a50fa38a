"""Identify the calling machine by its connection, never by anything in the request (M22)."""

import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from socket import SocketType, inet_aton, inet_ntoa
from typing import Any, TypeGuard

from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import Machine, Power, Scope
from fairwarning.service.documents import PublishedScope
from fairwarning.service.fleet import Fleet
from fairwarning.service.lookup import MachineLocation, find_machine

Key = str | tuple[str, str]
"""A local address, a source address with the prefix `_FROM`, a scope and a machine name, or the
name of the default machine with the prefix `_DEFAULT`."""

PeerAddress = Any
"""The address of the other end of a connection, as `socket.accept` returns it."""

CallerResolver = Callable[[SocketType, PeerAddress], Key]
"""Returns the key of the machine at the other end of a connection; may raise `OSError`."""

FindGuest = Callable[[str], Awaitable[MachineLocation | None]]

_FIRST = 0x7F010000  # 127.1.0.0; add a machine's number to get its address
_FROM = "from "
_DEFAULT = "default "
_UNKNOWN_KEYS = 4096
_EVICT_AFTER = 2  # calls of `evict_idle` without a request in between
_LAST = 0x7FFEFFFF  # 127.254.255.255; the next block contains the broadcast address


def loopback_address(number: int) -> str | None:
    """Return the loopback address of a machine; None beyond the last (sixteen million)."""
    address = _FIRST + number
    return inet_ntoa(address.to_bytes(4)) if _FIRST < address <= _LAST else None


def _number(address: str) -> int:
    """Return the number of the machine with this address; 0 if the address is out of range."""
    if ":" in address:  # IPv6 has a single loopback address
        return 0
    number = int.from_bytes(inet_aton(address)) - _FIRST
    return number if 0 < number <= _LAST - _FIRST else 0


def by_local_address(sock: SocketType, _: PeerAddress) -> Key:
    """Identify a machine by its own address in 127.0.0.0/8; one listener serves them all."""
    address: str = sock.getsockname()[0]
    return address


def by_source_address(_: SocketType, peer: PeerAddress) -> Key:
    """Identify a real guest by the source address that the fleet file gives it."""
    address: str = peer[0]
    return _FROM + address.partition("%")[0].removeprefix("::ffff:")


def _is_source(key: Key) -> TypeGuard[str]:
    return isinstance(key, str) and key.startswith(_FROM)


def for_machine(scope: str, machine: str) -> CallerResolver:
    """Identify every connection as one machine: for a Unix socket or a network namespace."""
    key = (scope, machine)
    return lambda _sock, _peer: key


class Caller:
    """A machine that sends requests. All its connections share one `Caller`."""

    __slots__ = (
        "_address",
        "_created_at",
        "allowed",
        "checked_scope",
        "connections",
        "enabled_at",
        "idle_checks",
        "name",
        "number",
        "polls",
        "published",
        "scope",
    )  # fmt: skip

    def __init__(
        self, location: MachineLocation, published: PublishedScope, allowed: int, address: str = ""
    ) -> None:
        """`address` is what identifies the machine, if it is its own address."""
        machine = location.machine
        self._address = address
        self.scope = location.scope
        self.name = machine.name
        self.number = location.number  # of the machine in the fleet
        self.published = published
        self.polls = 0  # since the last `collect_polls`
        self.allowed = allowed  # polls left under the rate limit; other requests are deducted
        self.checked_scope: Scope | None = None
        """The scope state for which this caller has passed all checks."""
        self.enabled_at = -1.0  # `ready_at` of the scope in the last document sent
        self.connections = 0
        self.idle_checks = 0
        self._created_at = machine.created_at
        if (state := published.scope) and (current := self.machine()):
            # There may be a million callers: share the objects that the document holds.
            self.scope, self.name, self._created_at = state.id, current.name, current.created_at

    def machine(self) -> Machine | None:
        """Return the machine's current state; None if this caller no longer is that machine.

        It may be deleted or recreated, or have another address.
        """
        scope = self.published.scope
        machine = scope.machines.get(self.name) if scope else None
        if machine is None or machine.created_at != self._created_at:
            return None
        return machine if self._address in {"", machine.address} else None

    def is_running(self) -> bool:
        """Whether the machine runs. A deleted or stopped machine cannot send requests (IL11)."""
        machine = self.machine()
        return machine is not None and machine.power is Power.RUNNING


class Callers:
    """All machines that have sent a request recently."""

    def __init__(self, fleet: Fleet, allowed: int, default_machine: str = "") -> None:
        self._fleet = fleet
        self._allowed = allowed
        self._default = _DEFAULT + default_machine if default_machine else ""
        self.active: list[Caller] = []
        """Callers that have polled since the last `collect_polls`. With this list, a tick costs
        time for each caller that polled and not for each machine."""
        self._awaiting_refill: set[Caller] = set()  # callers below their full burst
        self.known: dict[Key, Caller] = {}
        self._unknown: set[Key] = set()  # keys without a machine, until the fleet changes
        self.find_guest: FindGuest | None = None
        """Finds a machine by an address that no machine has yet, if the host can tell."""
        self._changes = 0
        fleet.publisher.watchers.append(self._changed)

    def _changed(self) -> None:
        """Drop the negative cache: the change may have created a machine."""
        self._changes += 1
        self._unknown.clear()

    async def find(self, key: Key) -> Caller | None:
        """Return the caller with this key, from the store if it is not in memory."""
        caller = self.known.get(key)
        if caller is not None and caller.machine() is not None:
            return caller
        self.known.pop(key, None)
        if key in self._unknown:
            return await self._find_default(key)
        changes = self._changes
        location = await self._locate(key)
        if location is None:
            if changes == self._changes and len(self._unknown) < _UNKNOWN_KEYS:
                self._unknown.add(key)
            return await self._find_default(key)
        published = await self._fleet.documents.fetch(location.scope)
        caller = self.known.get(key)  # another connection may have added it meanwhile
        if caller is None:
            address = key.removeprefix(_FROM) if _is_source(key) else ""
            caller = self.known[key] = Caller(location, published, self._allowed, address)
        return caller

    def takes_default(self, key: Key) -> bool:
        """Whether the default machine stands in for a caller that is no machine.

        The listener of a machine, and the address of one that was deleted, stay that machine's.
        """
        if not self._default or isinstance(key, tuple) or key == self._default:
            return False
        return key.startswith(_FROM) or not _number(key)

    async def _find_default(self, key: Key) -> Caller | None:
        return await self.find(self._default) if self.takes_default(key) else None

    async def _locate(self, key: Key) -> MachineLocation | None:
        reader = self._fleet.reader
        if isinstance(key, tuple):
            places = await reader.find_machines(scope=key[0])
            return next((place for place in places if place.machine.name == key[1]), None)
        if key == self._default:
            with suppress(NotFound, Refused):
                return await find_machine(self._fleet, key.removeprefix(_DEFAULT))
            return None
        if not _is_source(key):
            return await reader.locate_machine(_number(key))
        address = key.removeprefix(_FROM)
        place = await reader.locate_machine(address)
        if place is None and self.find_guest:
            return await self.find_guest(address)
        return place

    def collect_polls(self) -> int:
        """Report polls to the fleet, charge them to the rate limit, and return their number.

        A poll only increments a counter. The server calls this once a second, and the fleet calls
        it before it advances the clock.
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
                caller.polls = caller.idle_checks = 0
                self.queue_for_refill(caller)
        return total

    def queue_for_refill(self, caller: Caller) -> None:
        """Queue the caller for a rate-limit refill."""
        if self._allowed != sys.maxsize:
            self._awaiting_refill.add(caller)

    def refill(self, amount: int, limit: int) -> None:
        """Allow each caller `amount` more requests, up to `limit`; called once a second."""
        for caller in tuple(self._awaiting_refill):
            caller.allowed = min(caller.allowed + amount, limit)
            if caller.allowed == limit:
                self._awaiting_refill.discard(caller)

    def invalidate_checks(self) -> None:
        """Check every caller again at its next request; called when a fault rule changes."""
        for caller in self.known.values():
            caller.checked_scope = None

    def evict_idle(self) -> None:
        """Evict callers without a connection and without a request since the last two calls."""
        for key, caller in list(self.known.items()):
            caller.idle_checks += 1
            if caller.idle_checks > _EVICT_AFTER and not caller.connections:
                del self.known[key]
