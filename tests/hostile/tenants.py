"""Machines of different tenants, on each kind of connection that identifies its machine."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from fairwarning.core.commands import CreateScope
from fairwarning.core.model import Machine, Scope, ScopeKind
from fairwarning.metadata.callers import by_source_address, for_machine
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.probes_frames import END, chunk
from tests.hostile.wire import GOOD, HOST, METADATA, TARGET, Client, approval, get, head, post

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


# --- Ways to impersonate another machine; all must fail ---


Trick = Callable[[Tenant], bytes]
Both = Callable[[Tenant, Tenant], bytes]

_NAMING = (
    "Machine", "X-Machine", "X-Machine-Name", "X-Resource", "X-Vm-Id", "X-Scope", "Resource",
    "Metadata-Machine", "X-Ms-Client-Ip", "X-Original-Host", "X-Host", "From", "Origin", "Cookie",
    "Authorization", "X-Remote-Addr", "X-Original-Url", "X-Rewrite-Url",
)  # fmt: skip
_FORWARDING = ("X-Forwarded-For", "X_Forwarded_For", "x-real-ip", "Via", "X-Client-IP")
_QUERIES = ("machine", "resource", "name", "scope", "vmId", "host", "Resources", "eventId")


def _labelled(value: str) -> bytes:
    return get(*(f"{header}: {value}" for header in _NAMING))


def _asked(value: str) -> bytes:
    return get(target=TARGET + "".join(f"&{name}={value}" for name in _QUERIES))


def _forwarded(header: str) -> Trick:
    return lambda other: get(f"{header}: {other.address}")


READS: Mapping[str, Trick] = {
    "host": lambda other: head("GET", TARGET, f"Host: {other.address}", METADATA),
    "host-name": lambda other: head("GET", TARGET, f"Host: {other.machine}", METADATA),
    "metadata": lambda other: head("GET", TARGET, HOST, f"Metadata: {other.machine}"),
    "path-below": lambda other: get(target=f"/metadata/scheduledevents/{other.machine}"),
    "path-above": lambda other: get(target=f"/{other.scope}{TARGET}"),
    "path-dots": lambda other: get(target=f"/metadata/../{other.scope}{TARGET}"),
    "path-instance": lambda other: get(
        target=f"/metadata/instance/compute/{other.machine}?api-version=2021-02-01"
    ),
    "absolute": lambda other: get(target=f"http://{other.address}{TARGET}"),
    "userinfo": lambda other: get(target=f"http://{other.machine}@localhost{TARGET}"),
    "known": lambda other: get(f'If-None-Match: "{other.event}"'),
    "body": lambda other: get(f"Content-Length: {len(other.event)}") + other.event.encode(),
    "forwarded": lambda other: get(f"Forwarded: for={other.address};host={other.machine}"),
    "headers-name": lambda other: _labelled(other.machine),
    "headers-scope": lambda other: _labelled(other.scope),
    "headers-address": lambda other: _labelled(other.address),
    "headers-event": lambda other: _labelled(other.event),
    "query-name": lambda other: _asked(other.machine),
    "query-event": lambda other: _asked(other.event),
    **{f"forwarded-{name}": _forwarded(name) for name in _FORWARDING},
}
"""Attempts to read another machine's document."""


def _start(*events: str, **more: object) -> bytes:
    return json.dumps({**more, "StartRequests": [{"EventId": event} for event in events]}).encode()


def _chunked(body: bytes) -> bytes:
    return head("POST", TARGET, *GOOD, "Transfer-Encoding: chunked") + chunk(body) + END


def _hosted(other: Tenant) -> bytes:
    body = approval(other.event)
    size = f"Content-Length: {len(body)}"
    return head("POST", TARGET, f"Host: {other.address}", METADATA, size) + body


def _first_version(other: Tenant) -> bytes:
    body = approval(other.event)
    target = "/metadata/scheduledevents?api-version=2017-03-01"
    return head("POST", target, HOST, f"Content-Length: {len(body)}") + body


APPROVALS: Mapping[str, Both] = {
    "plain": lambda caller, other: post(approval(other.event)),
    "lower-case": lambda caller, other: post(approval(other.event.lower())),
    "own-first": lambda caller, other: post(approval(caller.event, other.event)),
    "own-last": lambda caller, other: post(approval(other.event, caller.event)),
    "own-around": lambda caller, other: post(approval(caller.event, other.event, caller.event)),
    "host": lambda caller, other: _hosted(other),
    "header": lambda caller, other: post(approval(other.event), f"X-Machine: {other.machine}"),
    "query": lambda caller, other: post(
        approval(other.event), target=f"{TARGET}&machine={other.machine}&scope={other.scope}"
    ),
    "body-fields": lambda caller, other: post(
        _start(other.event, Scope=other.scope, Resource=other.machine, scope=other.scope)
    ),
    "chunked": lambda caller, other: _chunked(approval(other.event)),
    "first-version": lambda caller, other: _first_version(other),
    "forwarded": lambda caller, other: post(
        approval(other.event), f"X-Forwarded-For: {other.address}"
    ),
    "path": lambda caller, other: post(
        approval(other.event), target=f"/metadata/scheduledevents/{other.event}"
    ),
    "absolute": lambda caller, other: post(
        approval(other.event), target=f"http://{other.address}{TARGET}"
    ),
}
"""Attempts to approve another machine's event."""
