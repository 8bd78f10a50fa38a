"""How machines are reached (M22): at an address or a port of their own, or by calling from one.

| system | way |
|---|---|
| loopback, with all of 127.0.0.0/8 | each machine has its own address |
| loopback with a single address, or `--machine-ports` | each machine has its own port |
| any other address | the address that a machine calls from identifies it |
"""

import socket
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial

from fairwarning.console.readers import Reader
from fairwarning.core.errors import FairwarningError, Unavailable
from fairwarning.core.record import record
from fairwarning.metadata.callers import (
    CallerResolver,
    by_local_address,
    by_source_address,
    loopback_address,
)
from fairwarning.metadata.listeners import (
    IPV4_LOOPBACK,
    IPV6_LOOPBACK,
    LAST_PORT,
    PortRange,
    has_machine_addresses,
    is_loopback,
    open_tcp,
)
from fairwarning.metadata.server import MetadataServer
from fairwarning.server.descriptors import raise_file_limit
from fairwarning.server.machine_listeners import MachineListeners, Place
from fairwarning.service.fleet import Fleet
from fairwarning.service.lookup import MachineLocation, find_machine

_WILDCARDS = {"0.0.0.0": IPV4_LOOPBACK, "::": IPV6_LOOPBACK}  # noqa: S104  (clients use loopback)
_FIRST_PORT = 8200  # of machines, if the metadata port is privileged
_AFTER_METADATA = 31  # from the metadata port to the first machine's: 8169 and 8200
_PRIVILEGED = 1024
_OTHER_FILES = 256  # that the process needs besides its connections
_AHEAD = 1024  # descriptors allowed at once, to raise the limit rarely


class MachinePorts(MachineListeners[int]):
    """Keeps one port per machine, on the host of the metadata endpoint."""

    kind = "port"

    def __init__(
        self, host: str, ports: PortRange, server: MetadataServer, fleet: Fleet, *, shared: bool
    ) -> None:
        super().__init__(server, fleet)
        self._ports = ports
        self._open_port = partial(open_tcp, host, single=True, shared=shared)

    def port(self, location: MachineLocation) -> int | None:
        """Return the port on which a machine is answered; None if it has none."""
        port = self._ports.port(location.number)
        opened = self._open.get(port)
        is_own = opened and opened.place == (location.scope, location.machine.name)
        return port if is_own else None

    async def _read_number(self, place: Place) -> None:
        if place not in self._numbers:
            for location in await self._fleet.reader.find_machines(scope=place[0]):
                self._numbers[place[0], location.machine.name] = location.number

    def _slot_of(self, place: Place) -> int | None:
        number = self._numbers.get(place)
        return self._ports.port(number) if number else None

    def _bind(self, slot: int) -> socket.socket:
        self._check_room()
        return self._open_port(slot)

    def _check_room(self) -> None:
        """Refuse a port that would use a descriptor of the endpoint's connections."""
        server, count = self._server, len(self._open)
        reserved = server.max_connections + server.other_connections + _OTHER_FILES
        allowed = raise_file_limit(reserved + count // _AHEAD * _AHEAD + _AHEAD)
        room = allowed - reserved if allowed > reserved else allowed // 2
        if count >= room:
            text = (
                f"the limit of open files, {allowed}, leaves room for the ports of {room} machines;"
                " raise it with `ulimit -n`, or lower `connections` in [metadata]"
            )
            raise Unavailable("NoDescriptors", text)

    def _taken(self, _: int) -> str:
        ports = self._ports
        return (
            f"the ports {ports.first} to {ports.last} are enough for {ports.size} machines; give a"
            " larger range with --machine-ports"
        )


class ReachWay(StrEnum):
    """How a machine is reached."""

    ADDRESS = "own address"
    PORT = "own port"
    SOURCE = "source address"


def choose_way(host: str, ports: PortRange | None) -> ReachWay:
    """Return the best way that this system has, for a metadata endpoint on this host."""
    if ports is not None:
        return ReachWay.PORT
    if not is_loopback(host):
        return ReachWay.SOURCE
    is_ipv6 = ":" in host
    return ReachWay.PORT if is_ipv6 or not has_machine_addresses() else ReachWay.ADDRESS


@record
class _Surroundings:
    """What the plain endpoint answers a reader as, read from the store once for many URLs."""

    host: str  # under which the reader reaches it
    default: tuple[str, str] | None  # scope and name of the default machine, if it answers
    source: str  # from which the reader calls


class Reach:
    """The way in which machines are reached, and their URLs."""

    port = 0  # of the plain metadata endpoint
    _machine_ports: MachinePorts | None = None

    def __init__(
        self, host: str, ports: PortRange | None, default_machine: str, fleet: Fleet
    ) -> None:
        self.way = choose_way(host, ports)
        self._host = host
        self._ports = ports
        self._default_machine = default_machine
        self._fleet = fleet
        if fleet.following and self.way is ReachWay.PORT:
            fleet.following.all_scopes = True

    @property
    def resolver(self) -> CallerResolver:
        """How callers of the plain endpoint are identified."""
        return by_local_address if is_loopback(self._host) else by_source_address

    def open_endpoint(self, port: int, *, shared: bool) -> socket.socket:
        """Return the socket of the plain metadata endpoint."""
        single = self.way is not ReachWay.ADDRESS
        opened = open_tcp(self._host, port, single=single, shared=shared)
        self.port = opened.getsockname()[1]
        return opened

    def machine_ports(self, server: MetadataServer, *, shared: bool) -> MachinePorts | None:
        """Return the ports of machines, still closed; None if this is not the way."""
        if self.way is ReachWay.PORT:
            ports = self._ports or _default_ports(self.port)
            self._machine_ports = MachinePorts(
                self._host, ports, server, self._fleet, shared=shared
            )
        return self._machine_ports

    # --- URLs ---

    async def urls(self, locations: Sequence[MachineLocation], reader: Reader) -> list[str | None]:
        """Return the URL of each machine that answers this reader; None if there is none."""
        host = self._host_for(reader)
        if host is None:
            return [None] * len(locations)
        if self._machine_ports:
            await self._machine_ports.settled()
        surroundings = await self._surroundings(host, reader)
        return [self._url(location, surroundings) for location in locations]

    def _host_for(self, reader: Reader) -> str | None:
        """Return the host under which a reader reaches the endpoint; None if it does not."""
        if self._host in _WILDCARDS:
            return reader.host or _WILDCARDS[self._host]
        return self._host if reader.is_local or not is_loopback(self._host) else None

    async def _surroundings(self, host: str, reader: Reader) -> _Surroundings:
        is_elsewhere = not reader.is_local or self._host in _WILDCARDS
        source = reader.address if is_elsewhere and reader.address else host
        default = None
        if self._default_machine and not await self._is_machine(source):
            with suppress(FairwarningError):
                location = await find_machine(self._fleet, self._default_machine)
                default = location.scope, location.machine.name
        return _Surroundings(host=host, default=default, source=source)

    async def _is_machine(self, source: str) -> bool:
        """Whether the plain endpoint identifies a caller from this address as a machine."""
        if is_loopback(self._host):
            return False
        return await self._fleet.reader.locate_machine(source) is not None

    def _url(self, location: MachineLocation, surroundings: _Surroundings) -> str | None:
        host, machine = surroundings.host, location.machine
        if self.way is ReachWay.ADDRESS and (address := loopback_address(location.number)):
            return url_of(address, self.port)
        if self._machine_ports and (port := self._machine_ports.port(location)):
            return url_of(host, port)
        is_caller = not is_loopback(self._host) and machine.address == surroundings.source
        if is_caller or surroundings.default == (location.scope, machine.name):
            return url_of(host, self.port)
        return None


def _default_ports(metadata_port: int) -> PortRange:
    first = metadata_port + _AFTER_METADATA
    is_usable = metadata_port >= _PRIVILEGED and first < LAST_PORT
    return PortRange(first=first if is_usable else _FIRST_PORT)


def url_of(host: str, port: int, scheme: str = "http") -> str:
    """Return the URL to connect to from this host; a wildcard address becomes loopback."""
    host = _WILDCARDS.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
