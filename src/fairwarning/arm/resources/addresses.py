"""Addresses of public IP resources and network interfaces. No host has these addresses.

An address depends only on the resource's id, so the same template always gives the same addresses.
"""

from hashlib import sha256
from ipaddress import IPv4Network

from fairwarning.arm.http.context import ArmContext
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import subnets

_PUBLIC = tuple(
    IPv4Network(net) for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
)  # reserved for documentation (RFC 5737)
_PRIVATE = IPv4Network("10.0.0.0/16")  # for an unknown subnet
_FIRST = 4  # Azure reserves the first four addresses of a subnet


async def fill_public(_context: ArmContext, body: Body, path: str) -> None:
    """Fill in a public IP address and its defaults."""
    properties = body["properties"]
    net = _PUBLIC[_number(path, "net") % len(_PUBLIC)]
    properties.setdefault("ipAddress", _host(net, path, 1))
    properties.setdefault("publicIPAddressVersion", "IPv4")
    properties.setdefault("publicIPAllocationMethod", "Dynamic")
    properties.setdefault("idleTimeoutInMinutes", 4)


async def fill_interface(context: ArmContext, body: Body, path: str) -> None:
    """Fill in the MAC address of a network interface, and a private address per configuration."""
    properties = body["properties"]
    digits = f"{_number(path, 'mac') % 2**24:06X}"
    properties.setdefault("macAddress", f"00-0D-3A-{digits[:2]}-{digits[2:4]}-{digits[4:]}")
    properties.setdefault("enableIPForwarding", False)
    properties.setdefault("enableAcceleratedNetworking", False)
    for number, configuration in enumerate(properties.get("ipConfigurations", ())):
        inner = configuration.setdefault("properties", {})
        inner.setdefault("primary", number == 0)
        inner.setdefault("privateIPAddressVersion", "IPv4")
        inner.setdefault("privateIPAllocationMethod", "Dynamic")
        if "privateIPAddress" not in inner:
            net = await subnets.find(context, inner, path.split("/")[4]) or _PRIVATE
            inner["privateIPAddress"] = _host(net, f"{path}/{configuration['name']}", _FIRST)


def _host(net: IPv4Network, path: str, first: int) -> str:
    """Return an address of a network, between its first usable one and its broadcast address."""
    return str(net[first + _number(path, "host") % (net.num_addresses - first - 1)])


def _number(path: str, use: str) -> int:
    return int.from_bytes(sha256(f"{use} {path.lower()}".encode()).digest()[:8])
