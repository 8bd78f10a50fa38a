"""Machines that are strangers to each other, on each kind of connection that names its caller."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fairwarning.core.commands import CreateScope
from fairwarning.core.model import Machine, Scope, ScopeKind
from fairwarning.metadata.identity import always, by_source_address
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.wire import Client

TRANSPORTS = ("own-address", "source-address", "own-listener")


@dataclass(frozen=True)
class Party:
    """A machine, all that another might call it by, and its pending event."""

    machine: str
    scope: str
    address: str
    event: str = ""

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """What nobody else may be told."""
        return self.machine.encode(), self.scope.encode(), self.event.encode()


class Town:
    """An endpoint whose machines all connect in one way."""

    def __init__(self, it: EndpointHarness, transport: str) -> None:
        self.it = it
        self.transport = transport
        self._by_source = it.listen(by_source_address)
        self._own: dict[str, int] = {}

    def settle(self, number: int, *, machines: int = 1) -> Party:
        """A scope of its own, which is on, with an event for its first machine."""
        party = Party(f"vm-{number:02}-a", f"home-{number:02}", f"127.77.{number}.1")
        self.it.create(
            CreateScope(
                scope=party.scope,
                kind=ScopeKind.AVAILABILITY_SET,
                machines=tuple(self.machine(party, n) for n in range(machines)),
            )
        )
        self._own[party.machine] = self.it.listen(always(party.scope, party.machine))
        self.it.run(self.it.fleet.poll(party.scope))
        event = self.it.freeze(party.machine).id
        return Party(party.machine, party.scope, party.address, event)

    @staticmethod
    def machine(party: Party, number: int = 0) -> Machine:
        """The first machine of a scope, or another beside it."""
        if number == 0:
            return Machine(name=party.machine, address=party.address)
        return Machine(name=f"{party.scope}-spare-{number}")

    def open(self, party: Party) -> Client:
        """A connection of this machine."""
        if self.transport == "own-address":
            return Client(self.it.open(party.machine))
        if self.transport == "own-listener":
            return Client(socket.create_connection(("127.0.0.1", self._own[party.machine])))
        return self.open_from(party.address)

    def open_from(self, source: str) -> Client:
        """A connection from this address."""
        where = ("127.0.0.1", self._by_source)
        return Client(socket.create_connection(where, source_address=(source, 0)))

    def stranger(self) -> Client:
        """A connection of nobody."""
        if self.transport == "own-address":
            return Client(socket.create_connection(("127.0.0.1", self.it.port)))
        if self.transport == "source-address":
            return self.open_from("127.78.0.1")
        port = self.it.listen(always("home-99", "vm-99-a"))
        return Client(socket.create_connection(("127.0.0.1", port)))

    def scopes(self, *parties: Party) -> list[Scope]:
        """Everything there is to change."""
        return [self.it.scope(party.scope) for party in parties]


@contextmanager
def town(transport: str) -> Iterator[Town]:
    """An empty one."""
    with EndpointHarness() as it:
        yield Town(it, transport)
