"""Machines of different tenants, on each kind of connection that identifies its machine."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fairwarning.core.commands import CreateScope
from fairwarning.core.model import Machine, Scope, ScopeKind
from fairwarning.metadata.callers import by_source_address, for_machine
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.wire import Client

TRANSPORTS = ("own-address", "source-address", "own-listener")


@dataclass(frozen=True)
class Tenant:
    """A machine, all names by which another could refer to it, and its pending event."""

    machine: str
    scope: str
    address: str
    event: str = ""

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """Return what no other tenant may read."""
        return self.machine.encode(), self.scope.encode(), self.event.encode()


class TenantEndpoint:
    """An endpoint whose machines all connect in one way."""

    def __init__(self, endpoint: EndpointHarness, transport: str) -> None:
        self.endpoint = endpoint
        self.transport = transport
        self._by_source = endpoint.listen(by_source_address)
        self._own: dict[str, int] = {}

    def add_tenant(self, number: int, *, machines: int = 1) -> Tenant:
        """Create an enabled scope with an event for its first machine."""
        tenant = Tenant(f"vm-{number:02}-a", f"home-{number:02}", f"127.77.{number}.1")
        self.endpoint.create(
            CreateScope(
                scope=tenant.scope,
                kind=ScopeKind.AVAILABILITY_SET,
                machines=tuple(self.machine(tenant, n) for n in range(machines)),
            )
        )
        self._own[tenant.machine] = self.endpoint.listen(for_machine(tenant.scope, tenant.machine))
        self.endpoint.run(self.endpoint.fleet.poll(tenant.scope))
        event = self.endpoint.freeze(tenant.machine).id
        return Tenant(tenant.machine, tenant.scope, tenant.address, event)

    @staticmethod
    def machine(tenant: Tenant, number: int = 0) -> Machine:
        """Return the first machine of a scope, or an additional one."""
        if number == 0:
            return Machine(name=tenant.machine, address=tenant.address)
        return Machine(name=f"{tenant.scope}-spare-{number}")

    def open(self, tenant: Tenant) -> Client:
        if self.transport == "own-address":
            return Client(self.endpoint.open(tenant.machine))
        if self.transport == "own-listener":
            return Client(socket.create_connection(("127.0.0.1", self._own[tenant.machine])))
        return self.open_from(tenant.address)

    def open_from(self, source: str) -> Client:
        address = ("127.0.0.1", self._by_source)
        return Client(socket.create_connection(address, source_address=(source, 0)))

    def unknown_caller(self) -> Client:
        if self.transport == "own-address":
            return Client(socket.create_connection(("127.0.0.1", self.endpoint.port)))
        if self.transport == "source-address":
            return self.open_from("127.78.0.1")
        port = self.endpoint.listen(for_machine("home-99", "vm-99-a"))
        return Client(socket.create_connection(("127.0.0.1", port)))

    def scopes(self, *tenants: Tenant) -> list[Scope]:
        """Return everything that could be changed."""
        return [self.endpoint.scope(tenant.scope) for tenant in tenants]


@contextmanager
def tenant_endpoint(transport: str) -> Iterator[TenantEndpoint]:
    """Yield an endpoint without tenants."""
    with EndpointHarness() as endpoint:
        yield TenantEndpoint(endpoint, transport)
