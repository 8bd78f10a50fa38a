"""A TCP port for each machine (M22), where machines cannot have addresses of their own."""

import socket
from functools import partial

from fairwarning.core.errors import Unavailable
from fairwarning.metadata.listeners import PortRange, open_tcp
from fairwarning.metadata.server import MetadataServer
from fairwarning.server.descriptors import raise_file_limit
from fairwarning.server.reach.machine_listeners import MachineListeners, Place
from fairwarning.service.fleet import Fleet
from fairwarning.service.lookup import MachineLocation

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
