"""Addresses for what is described with one: they lead nowhere, and never change.

They depend on the resource's id alone, so that the same template gives the same addresses.
"""

import re
from hashlib import sha256
from ipaddress import IPv4Network, ip_network

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import documents

_PUBLIC = tuple(
    IPv4Network(net) for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
)  # for documentation (RFC 5737): nobody has them
_PRIVATE = IPv4Network("10.0.0.0/16")  # where the subnet is not known
_FIRST = 4  # Azure keeps the ones before
_SMALLEST = 8  # addresses that a subnet has at least, on Azure
_NETWORKS = "Microsoft.Network/virtualNetworks"
_SUBNET = re.compile(
    rf"/subscriptions/[^/]+/resourceGroups/([^/]+)/providers/{re.escape(_NETWORKS)}"
    r"/([^/]+)/subnets/([^/]+)",
    re.IGNORECASE,
)


async def fill_public(_plane: ArmContext, body: Body, path: str) -> None:
    """Give a public address."""
    properties = body["properties"]
    net = _PUBLIC[_number(path, "net") % len(_PUBLIC)]
    properties.setdefault("ipAddress", _host(net, path, 1))
    properties.setdefault("publicIPAddressVersion", "IPv4")
    properties.setdefault("publicIPAllocationMethod", "Dynamic")
    properties.setdefault("idleTimeoutInMinutes", 4)


async def fill_interface(plane: ArmContext, body: Body, path: str) -> None:
    """Give a network interface its hardware address, and each configuration one of its subnet."""
    properties = body["properties"]
    digits = f"{_number(path, 'mac') % 2**24:06X}"
    properties.setdefault("macAddress", f"00-0D-3A-{digits[:2]}-{digits[2:4]}-{digits[4:]}")
    properties.setdefault("enableIPForwarding", False)
    properties.setdefault("enableAcceleratedNetworking", False)
    for number, one in enumerate(properties.get("ipConfigurations", ())):
        inner = one.setdefault("properties", {})
        inner.setdefault("primary", number == 0)
        inner.setdefault("privateIPAddressVersion", "IPv4")
        inner.setdefault("privateIPAllocationMethod", "Dynamic")
        if "privateIPAddress" not in inner:
            net = await _subnet(plane, inner, path)
            inner["privateIPAddress"] = _host(net, f"{path}/{one['name']}", _FIRST)


async def _subnet(plane: ArmContext, configuration: Body, path: str) -> IPv4Network:
    """The addresses of the subnet that is named.

    It is looked up in the interface's own group only: of others' somebody may not even know.
    """
    subnet = configuration.get("subnet")
    named = _SUBNET.fullmatch(str(subnet.get("id"))) if isinstance(subnet, dict) else None
    if named is None or named[1].lower() != path.split("/")[4].lower():
        return _PRIVATE
    network = documents.written(await plane.find(_NETWORKS, named[1], named[2]))
    for one in network.get("properties", {}).get("subnets", ()):
        if one["name"].lower() == named[3].lower():
            return _prefix(one.get("properties", {}))
    return _PRIVATE


def _prefix(subnet: Body) -> IPv4Network:
    several = subnet.get("addressPrefixes")
    first = several[0] if isinstance(several, list) and several else ""
    try:
        net = ip_network(str(subnet.get("addressPrefix", first)), strict=False)
    except ValueError:
        return _PRIVATE
    fits = isinstance(net, IPv4Network) and net.num_addresses >= _SMALLEST
    return net if fits and isinstance(net, IPv4Network) else _PRIVATE


def _host(net: IPv4Network, path: str, first: int) -> str:
    """One of the addresses of a network, from its first that may be used to its last but one."""
    return str(net[first + _number(path, "host") % (net.num_addresses - first - 1)])


def _number(path: str, use: str) -> int:
    return int.from_bytes(sha256(f"{use} {path.lower()}".encode()).digest()[:8])
