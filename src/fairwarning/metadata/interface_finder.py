"""Finds the network interface of a machine by its number and its ARM resources."""

from collections.abc import Iterable, Sequence

from fairwarning.core.errors import NotFound
from fairwarning.core.model import Machine, Ref, Resource, Scope, ScopeKind
from fairwarning.metadata import arm_interfaces
from fairwarning.metadata.interfaces import NetworkInterface, choose
from fairwarning.service.reader import FleetReader


class InterfaceFinder:
    """Finds the interfaces of machines."""

    def __init__(self, reader: FleetReader) -> None:
        self._reader = reader

    async def find(self, scope: Scope, machine: Machine, number: int) -> NetworkInterface:
        """Return the interface of the machine; no other machine of its scope has the same values.

        Configured addresses come first, then older machines. Among scopes of several machines only
        availability sets have machines with ARM network interfaces.
        """
        members: Sequence[tuple[int, Machine]] = [(number, machine)]
        if scope.kind is ScopeKind.AVAILABILITY_SET:
            places = await self._reader.find_machines(scope=scope.id)
            members = [(place.number, place.machine) for place in places]
        from_arm = await self._from_arm([member for _, member in members])
        taken = {member.address for member in scope.machines.values()}
        for member_number, member in members:
            interface = choose(
                member_number, member.address, from_arm.get(member.name), taken, member.subnet
            )
            if member.name == machine.name:
                return interface
            taken |= {interface.address, interface.mac}
        raise NotFound("UnknownMachine", "this machine no longer exists")

    async def _from_arm(self, machines: Sequence[Machine]) -> dict[str, NetworkInterface | None]:
        """Return the primary ARM network interface of each machine, by name."""
        written = await self._read(machine.resource for machine in machines)
        ids = {
            machine.name: arm_interfaces.interface_of(written.get(machine.resource))
            for machine in machines
        }
        interfaces = await self._read(ids.values())
        networks = await self._read(map(arm_interfaces.network_of, interfaces.values()))
        shown = {
            id_: arm_interfaces.parse(resource, networks.get(arm_interfaces.network_of(resource)))
            for id_, resource in interfaces.items()
        }
        return {name: shown.get(id_) for name, id_ in ids.items()}

    async def _read(self, ids: Iterable[str]) -> dict[str, Resource]:
        refs: list[Ref] = [(Resource, id_) for id_ in dict.fromkeys(ids) if id_]
        read = await self._reader.read_all(refs) if refs else {}
        return {ref[1]: entity for ref, entity in read.items() if isinstance(entity, Resource)}
