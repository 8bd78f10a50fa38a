"""Finds the network interface of a machine by its number and its ARM resources."""

from collections.abc import Iterable

from fairwarning.core.model import Machine, Ref, Resource, Scope
from fairwarning.metadata import arm_interfaces
from fairwarning.metadata.interfaces import NetworkInterface, choose
from fairwarning.service.reader import FleetReader

_KNOWN = 4096

_Versions = dict[str, int]
"""Versions of resources by id; 0 for one that does not exist."""


class InterfaceFinder:
    """Finds the interfaces of machines. A document is parsed once for each of its versions."""

    def __init__(self, reader: FleetReader) -> None:
        self._reader = reader
        self._known: dict[int, tuple[_Versions, NetworkInterface | None]] = {}
        """What the ARM resources of a machine say, by its number."""

    async def find(self, scope: Scope, machine: Machine, number: int) -> NetworkInterface:
        """Return the interface of the machine, as Azure's tools show it.

        No other machine of its scope has its configured address, nor one by its number.
        """
        taken = {member.address for member in scope.machines.values()}
        from_arm = await self._from_arm(machine.resource, number) if machine.resource else None
        return choose(number, machine.address, from_arm, taken, machine.subnet)

    async def _from_arm(self, resource: str, number: int) -> NetworkInterface | None:
        """Return the primary ARM network interface of a machine."""
        versions, interface = self._known.get(number, ({}, None))
        if versions and versions == _versions(await self._read(versions)):
            return interface
        read = await self._read([resource])
        used = arm_interfaces.interface_of(read[resource])
        read |= await self._read([used])
        network = arm_interfaces.network_of(read.get(used))
        read |= await self._read([network])
        interface = arm_interfaces.parse(read.get(used), read.get(network))
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known[number] = _versions(read), interface
        return interface

    async def _read(self, ids: Iterable[str]) -> dict[str, Resource | None]:
        refs: list[Ref] = [(Resource, id_) for id_ in ids if id_]
        read = await self._reader.read_all(refs)
        return {
            id_: resource if isinstance(resource, Resource) else None
            for (_, id_), resource in read.items()
        }


def _versions(read: dict[str, Resource | None]) -> _Versions:
    return {id_: resource.version if resource else 0 for id_, resource in read.items()}
