"""Identifying the calling machine by its connection, never by the request (M22)."""

import socket
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path

import pytest

from fairwarning.core.commands import AddMachines, CreateScope, Delete
from fairwarning.core.model import Machine, ScopeKind
from fairwarning.metadata.callers import by_source_address, for_machine
from fairwarning.metadata.listeners import open_tcp, open_unix
from fairwarning.service.config.settings import MetadataSettings
from fairwarning.service.guest_addresses import GuestAddresses
from fairwarning.store.store import MachineLocation
from tests.fixtures.endpoint import POLL_TARGET, EndpointHarness, poll
from tests.fixtures.fleet import standalone
from tests.fixtures.http import Response, send
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.metadata.conftest import METADATA, NAME

pytestmark = pytest.mark.spec("M22")

AWAY = "127.9.9.9"


def _name(connection: HTTPConnection, **headers: str) -> str:
    """The name under which the server knows this connection; empty if it knows none."""
    response = send(connection, "GET", NAME, METADATA | headers)
    if response.status == 200:
        return response.body.decode()
    assert _unknown(response)
    return ""


def _from(endpoint: EndpointHarness, source: str, port: int) -> HTTPConnection:
    origin = (source, 0)
    return endpoint.keep(HTTPConnection("127.0.0.1", port, LIMIT_SECONDS, source_address=origin))


def _at(endpoint: EndpointHarness, address: str, port: int) -> HTTPConnection:
    return endpoint.keep(HTTPConnection(address, port, LIMIT_SECONDS))


def _unix(endpoint: EndpointHarness, path: Path) -> HTTPConnection:
    connection = endpoint.keep(HTTPConnection("localhost"))
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(LIMIT_SECONDS)
    connection.sock.connect(str(path))
    return connection


def _once(connection: HTTPConnection) -> Response:
    return send(connection, "GET", POLL_TARGET, METADATA)


def _unknown(response: Response) -> bool:
    return response.status == 404 and bool(response.error)


def test_an_unknown_caller_is_told_the_ways(endpoint: EndpointHarness) -> None:
    """The error text lists them."""
    response = _once(_at(endpoint, "127.0.0.1", endpoint.port))
    for way in ("`fairwarning machine list`", "exec", "--sockets", "--default-machine"):
        assert way in response.error


def test_the_default_machine() -> None:
    """It stands in for callers that are no machine, not for the address of a deleted one."""
    with EndpointHarness(MetadataSettings(default_machine="db_1")) as endpoint:
        endpoint.make("db", 2)
        endpoint.create(standalone("guest", AWAY))
        by_source = endpoint.listen(by_source_address)
        assert _name(_at(endpoint, "127.0.0.1", endpoint.port)) == "db_1"
        assert _name(_from(endpoint, "127.0.0.8", by_source)) == "db_1"
        assert _name(_from(endpoint, AWAY, by_source)) == "guest"
        assert _name(endpoint.client("db_0")) == "db_0"
        assert _name(_at(endpoint, "127.1.0.99", endpoint.port)) == ""


def test_a_default_machine_that_does_not_exist_yet() -> None:
    """Callers get 404 with its name, and are answered once it is created."""
    with EndpointHarness(MetadataSettings(default_machine="late")) as endpoint:
        connection = _at(endpoint, "127.0.0.1", endpoint.port)
        response = _once(connection)
        assert response.status == 404
        assert "There is no machine 'late'" in response.error
        endpoint.create(standalone("late"))
        assert _name(connection) == "late"


class _Host:
    """A host that knows the addresses of its guests."""

    def __init__(self) -> None:
        self.guests = {AWAY: "db/db_0", "127.9.9.10": "db_1", "127.9.9.11": "gone"}
        self.asked: list[str] = []

    async def guest_at(self, address: str) -> str:
        self.asked.append(address)
        return self.guests.get(address, "")


def test_a_host_that_knows_its_guests() -> None:
    """A machine without an address is given its guest's; a stranger costs one question."""
    host = _Host()
    with EndpointHarness() as endpoint:
        endpoint.make("db", 2)
        endpoint.create(standalone("other", "127.9.9.12"))
        endpoint.server.callers.find_guest = GuestAddresses(endpoint.fleet, host).find
        port = endpoint.listen(by_source_address)
        for source, name in ((AWAY, "db_0"), ("127.9.9.10", "db_1"), ("127.9.9.12", "other")):
            assert _name(_from(endpoint, source, port)) == name
        assert endpoint.scope("db").machines["db_0"].address == AWAY
        for _ in range(3):
            assert _name(_from(endpoint, "127.9.9.11", port)) == ""
        assert host.asked == [AWAY, "127.9.9.10", "127.9.9.11"]
        host.guests["127.9.9.13"] = "db_0"  # which has another address
        assert _name(_from(endpoint, "127.9.9.13", port)) == ""


def test_a_unix_socket_of_one_machine(endpoint: EndpointHarness, tmp_path: Path) -> None:
    """A connection to the socket is that machine; only the owner may open the socket."""
    endpoint.make("db", 2)
    for name in ("db_0", "db_1"):
        path = tmp_path / name
        endpoint.listen_on(open_unix(path), for_machine("db", name))
        assert path.stat().st_mode & 0o777 == 0o600
    for name in ("db_1", "db_0"):
        connection = _unix(endpoint, tmp_path / name)
        assert _name(connection) == name
        assert poll(connection).json == {"DocumentIncarnation": 1, "Events": []}


@pytest.mark.parametrize("kind", [ScopeKind.AVAILABILITY_SET, ScopeKind.STANDALONE])
def test_machine_recreated_under_the_same_name(endpoint: EndpointHarness, kind: ScopeKind) -> None:
    """The new machine is identified in every way that worked for the old one.

    Its scope is still there, or is created again with it.
    """
    vm = Machine(name="vm", address=AWAY)
    endpoint.create(CreateScope(scope="db", kind=kind, machines=(vm,)))
    by_source, fixed = endpoint.listen(by_source_address), endpoint.listen(for_machine("db", "vm"))
    for is_new in (False, True):
        if is_new:
            endpoint.do(Delete(scope="db", operation="delete", machines=("vm",)))
            endpoint.advance(3600)
            if kind is ScopeKind.STANDALONE:
                endpoint.create(CreateScope(scope="db", kind=kind, machines=(vm,)))
            else:
                endpoint.create(AddMachines(scope="db", machines=(vm,)))
        for connection in (
            endpoint.client("vm"),
            _from(endpoint, AWAY, by_source),
            _at(endpoint, "127.0.0.1", fixed),
        ):
            assert _name(connection) == "vm"
            assert poll(connection).status == 200


def test_a_new_machine_is_known_at_once(endpoint: EndpointHarness) -> None:
    """This holds even if the machine is created during the lookup of its address."""
    endpoint.make("db")
    reads, locate = endpoint.fleet.reader._locations, endpoint.fleet.store.locate_machines

    async def slowly(keys: Sequence[int | str]) -> dict[int | str, MachineLocation]:
        places = await locate(keys)
        reads._visit = locate
        await endpoint.fleet.submit(
            AddMachines(scope="db", machines=(Machine(name="late", address="127.0.0.1"),))
        )
        return places

    reads._visit = slowly
    port = endpoint.listen(by_source_address)
    statuses = []
    for _ in range(2):
        connection = HTTPConnection("127.0.0.1", port, timeout=LIMIT_SECONDS)
        statuses.append(poll(connection).status)
        connection.close()
    assert statuses == [404, 200]


@pytest.mark.parametrize(("exact", "hops"), [(False, 1), (True, 64)])
def test_hop_limit_of_listeners(exact: bool, hops: int) -> None:
    """Responses to machines end at the first router; those of console and control plane do not."""
    with open_tcp("127.0.0.1", 0, exact=exact) as listener:
        assert listener.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == hops
