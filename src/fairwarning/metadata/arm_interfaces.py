"""Reads network interfaces from ARM resources, which are stored as their users wrote them. Pure.

A resource of another group does not count: the user who wrote the machine may not read that group.
"""

import json
import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Any

from fairwarning.core.model import Resource
from fairwarning.metadata.interfaces import NetworkInterface
from fairwarning.service.resources import resource_id

_INTERFACES = "Microsoft.Network/networkInterfaces"
_NETWORKS = "Microsoft.Network/virtualNetworks"
_UNKNOWN_PREFIX = 16  # of an interface whose subnet is unknown
_MAC = r"[0-9A-Fa-f]{2}(-[0-9A-Fa-f]{2}){5}"
_ID = (
    r"(?i)/subscriptions/[^/]+/resourceGroups/([^/]+)/providers/([^/]+/[^/]+)/([^/]+)"
    r"(?:/subnets/([^/]+))?"
)


def interface_of(machine: Resource | None) -> str:
    """Return the id of a machine's primary network interface; empty if there is none."""
    profile = _at(_body(machine), "properties", "networkProfile")
    link = _primary(_at(profile, "networkInterfaces"))
    return _referenced(machine, link, _INTERFACES)


def network_of(interface: Resource | None) -> str:
    """Return the id of an interface's virtual network; empty if there is none."""
    return _referenced(interface, _at(_configuration(interface), "subnet"), _NETWORKS)


def parse(interface: Resource | None, network: Resource | None) -> NetworkInterface | None:
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
