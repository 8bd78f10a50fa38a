"""The network interface that a machine sees in its instance metadata (M19).

Its address is the one that the fleet file gives the machine, or that of its ARM network interface.
Otherwise it follows from the machine's number, as does the MAC address of a machine without an ARM
network interface. The store assigns numbers once and never reuses them, so these values are unique
and never change.

ARM resources are stored as their users wrote them. One of another group does not count: the user
who wrote the machine may not read that group.
"""

import json
import re
from collections.abc import Iterable, Iterator
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from itertools import count
from typing import Any

from fairwarning.core.model import Machine, Ref, Resource, Scope
from fairwarning.core.record import changed, short_record
from fairwarning.service.reader import FleetReader
from fairwarning.service.resources import resource_id

_PRIVATE = tuple(
    IPv4Network(net) for net in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
)
_DERIVED = IPv4Network("10.0.0.0/8")
_DERIVED_PREFIX = 16
_SIZE = 2 ** (32 - _DERIVED_PREFIX)  # addresses of a subnet
_RESERVED = 4  # of them at the start, as on Azure; the last one is the broadcast address
_USABLE = _SIZE - _RESERVED - 1
_SUBNETS = 2 ** (_DERIVED_PREFIX - _DERIVED.prefixlen)
_FIRST_SUBNET = 128  # people rather use the first ones
_NEXT = _USABLE * _SUBNETS // 3  # to the next candidate, if another machine has the address
_CONFIGURED_PREFIX = 24  # of a configured address, whose subnet is unknown
_MAC_PREFIX = "002248"  # one of Azure's; ARM network interfaces have another
_MACS = 2**24
_INTERFACES = "Microsoft.Network/networkInterfaces"
_NETWORKS = "Microsoft.Network/virtualNetworks"
_UNKNOWN_PREFIX = 16  # of an interface whose subnet is unknown
_MAC = r"[0-9A-Fa-f]{2}(-[0-9A-Fa-f]{2}){5}"
_ID = (
    r"(?i)/subscriptions/[^/]+/resourceGroups/([^/]+)/providers/([^/]+/[^/]+)/([^/]+)"
    r"(?:/subnets/([^/]+))?"
)
_KNOWN = 4096  # machines whose ARM resources are remembered

_Versions = dict[str, int]
"""Versions of resources by id; 0 for one that does not exist."""


@short_record
class NetworkInterface:
    """An interface as shown. `mac` has twelve upper-case hexadecimal digits."""

    address: str
    prefix: int  # of the subnet
    mac: str
    public: str = ""
    ipv6: str = ""

    @property
    def subnet(self) -> str:
        """The first address of the subnet."""
        net = IPv4Network((self.address, self.prefix), strict=False)
        return str(net.network_address)


def derived(number: int) -> Iterator[NetworkInterface]:
    """Yield the interfaces that a machine may have by its number, the preferred one first.

    Each number up to sixteen million has its own MAC address and preferred address.
    """
    mac = f"{_MAC_PREFIX}{number % _MACS:06X}"
    for index in count(number - 1, _NEXT):
        subnet, host = divmod(index, _USABLE)
        subnet = (_FIRST_SUBNET + subnet) % _SUBNETS
        yield NetworkInterface(
            str(_DERIVED[subnet * _SIZE + _RESERVED + host]), _DERIVED_PREFIX, mac
        )


def choose(
    number: int,
    configured: str,
    from_arm: NetworkInterface | None,
    taken: set[str],
    subnet: str = "",
) -> NetworkInterface:
    """Return the interface of a machine, given its sources and the values of other machines.

    `subnet` is that of the machine; a configured address may be in it.
    """
    if from_arm is not None and not {from_arm.address, from_arm.mac} & taken - {configured}:
        interface = from_arm
    else:
        interface = next(each for each in derived(number) if each.address not in taken)
    return _with_configured(interface, configured, subnet) if configured else interface


def _with_configured(interface: NetworkInterface, address: str, subnet: str) -> NetworkInterface:
    """Return the interface with the address that the machine has."""
    try:
        ipv4 = IPv4Address(address)
    except AddressValueError:
        return changed(interface, ipv6=address)
    if subnet and ipv4 in (net := IPv4Network(subnet)):
        return changed(interface, address=address, prefix=net.prefixlen)
    if any(ipv4 in net for net in _PRIVATE):
        return changed(interface, address=address, prefix=_CONFIGURED_PREFIX)
    return changed(interface, public=address) if ipv4.is_global else interface


# --- Network interfaces of the ARM API ---


def _interface_id(machine: Resource | None) -> str:
    """Return the id of a machine's primary network interface; empty if there is none."""
    profile = _at(_body(machine), "properties", "networkProfile")
    link = _primary(_at(profile, "networkInterfaces"))
    return _referenced(machine, link, _INTERFACES)


def _network_id(interface: Resource | None) -> str:
    """Return the id of an interface's virtual network; empty if there is none."""
    return _referenced(interface, _at(_configuration(interface), "subnet"), _NETWORKS)


def _parsed(interface: Resource | None, network: Resource | None) -> NetworkInterface | None:
    """Return the interface; None if it is incomplete."""
    mac = _at(_body(interface), "properties", "macAddress")
    address = _at(_configuration(interface), "privateIPAddress")
    if not isinstance(mac, str) or not re.fullmatch(_MAC, mac) or not _is_ipv4(address):
        return None
    prefix = _prefix(network, address, _at(_configuration(interface), "subnet", "id"))
    return NetworkInterface(address, prefix, mac.replace("-", "").upper())


def _prefix(network: Resource | None, address: str, subnet_id: object) -> int:
    match = re.fullmatch(_ID, str(subnet_id))
    name = (match[4] or "").lower() if match else ""
    for subnet in _items(_at(_body(network), "properties", "subnets")):
        if str(_at(subnet, "name")).lower() == name:
            for net in _ranges(_at(subnet, "properties")):
                if IPv4Address(address) in net:
                    return net.prefixlen
    return _UNKNOWN_PREFIX


def _ranges(subnet: object) -> Iterator[IPv4Network]:
    for text in (_at(subnet, "addressPrefix"), *_items(_at(subnet, "addressPrefixes"))):
        try:
            yield IPv4Network(str(text), strict=False)
        except ValueError:  # IPv6, or none
            continue


def _configuration(interface: Resource | None) -> object:
    """Return the primary address configuration of an interface."""
    configurations = _at(_body(interface), "properties", "ipConfigurations")
    return _at(_primary(configurations), "properties")


def _primary(items: object) -> object:
    """Return the item that is marked as primary, else the first one."""
    items = _items(items)
    return next((item for item in items if _at(item, "properties", "primary") is True), None) or (
        items[0] if items else None
    )


def _referenced(resource: Resource | None, link: object, kind: str) -> str:
    match = re.fullmatch(_ID, str(_at(link, "id")))
    if resource is None or match is None or match[2].lower() != kind.lower():
        return ""
    same_group = match[1].lower() == resource.group.lower()
    return resource_id(kind, match[1], match[3]) if same_group else ""


def _body(resource: Resource | None) -> object:
    return json.loads(resource.body) if resource else None


def _at(value: object, *path: str) -> Any:  # noqa: ANN401  (any JSON)
    """Return a member of nested objects; None if it is not there."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _is_ipv4(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(IPv4Address(value))
    except AddressValueError:
        return False


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
        used = _interface_id(read[resource])
        read |= await self._read([used])
        network = _network_id(read.get(used))
        read |= await self._read([network])
        interface = _parsed(read.get(used), read.get(network))
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
