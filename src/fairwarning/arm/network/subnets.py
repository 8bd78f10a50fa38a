"""Subnets of virtual networks, and the private addresses that interfaces reserve in them.

A reservation is a resource of its own, which the interface owns. The store creates it only once, so
that concurrent requests do not get the same address. In a host run, where addresses identify
machines (M22), new machines get addresses of their subnets.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, ip_network
from itertools import chain, islice

from fairwarning.arm.http.azure_id import AzureId, parse_id
from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.http.request import Body
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.names import SCALE_SET, SUBNET
from fairwarning.arm.types.references import BY_SOURCE, links, named_part
from fairwarning.core import limits
from fairwarning.core.commands import Write
from fairwarning.core.model import Resource
from fairwarning.service import resources

RESERVATION = "Microsoft.Network/virtualNetworks/subnets/addresses"
"""The kind of reservations. They are not resources of Azure, so no list shows them."""
_SMALLEST = 8  # addresses of the smallest subnet on Azure
RESERVED = 4  # Azure reserves the first four addresses of a subnet
DEFAULT_RANGE = IPv4Network("10.0.0.0/16")  # without a subnet, or one without a range
_LAST = 1  # the broadcast address
_AT_ONCE = 64  # reservations that are read together


@dataclass(frozen=True)
class AddressRange:
    """A subnet that gives addresses: its group, its name as `network/subnet`, and its addresses."""

    group: str
    name: str
    net: IPv4Network

    def reservation(self, address: str) -> str:
        return resources.resource_id(RESERVATION, self.group, f"{self.name}/{address}")

    def write(self, address: str) -> Write:
        return Write(
            resource=self.reservation(address),
            group=self.group,
            name=f"{self.name}/{address}",
            body="{}",
            within=resources.group_id(self.group),
            at=0,
        )


@dataclass(frozen=True)
class Reservation:
    """An address that was chosen, and the command that creates its reservation, if it is new."""

    address: str
    id: str
    commands: tuple[Write, ...] = ()


async def reserve(
    context: ArmContext, subnet: AddressRange, address: str, user: str
) -> Reservation | None:
    """Reserve this address for the interface `user`; None if another interface has it."""
    id_ = subnet.reservation(address)
    existing = await context.fleet.reader.read(Resource, id_)
    if existing is None:
        return Reservation(address, id_, (subnet.write(address),))
    return Reservation(address, id_) if existing.used_by in {"", user} else None


async def choose(
    context: ArmContext, subnet: AddressRange, user: str, taken: Collection[str], *, spread: bool
) -> Reservation:
    """Reserve a free address: one of the first, or with `spread` one anywhere in the subnet.

    `taken` are reservations of the same request.
    """
    usable = range(RESERVED, subnet.net.num_addresses - _LAST)
    start = int.from_bytes(sha256(user.encode()).digest()[:8]) % len(usable)
    first = () if spread else usable[:_AT_ONCE]
    offsets = chain(first, usable[start:], usable[:start])
    while batch := list(islice(offsets, _AT_ONCE)):
        await asyncio.sleep(0)  # other requests go on
        addresses = [str(subnet.net[offset]) for offset in batch]
        rows = await context.read_all(Resource, map(subnet.reservation, addresses))
        for address in addresses:
            id_ = subnet.reservation(address)
            row = rows.get(id_)
            if id_ in taken or (row and row.used_by):
                continue
            return Reservation(address, id_, () if row else (subnet.write(address),))
    raise azure_error("SubnetIsFull", name=subnet.name, net=subnet.net)


def check_static(address: str, net: IPv4Network) -> None:
    """Refuse a static address that is not a usable one of its subnet."""
    offset = int(IPv4Address(address)) - int(net.network_address)
    if not RESERVED <= offset < net.num_addresses - _LAST:
        raise azure_error("PrivateIPAddressNotInSubnet", address=address, net=net)


async def address_range(context: ArmContext, id_: AzureId) -> IPv4Network | None:
    """Return the addresses of a subnet; None if it does not exist, or has no usable range."""
    network = id_.parent()
    row = await context.find_id(network) if network else None
    subnet = named_part(row, "subnets", id_.names[-1]) if row else None
    properties = subnet.get("properties", {}) if subnet else {}
    prefixes = properties.get("addressPrefixes")
    first = prefixes[0] if isinstance(prefixes, list) and prefixes else ""
    try:
        net = ip_network(str(properties.get("addressPrefix", first)), strict=False)
    except ValueError:
        return None
    return net if isinstance(net, IPv4Network) and net.num_addresses >= _SMALLEST else None


async def of_set(context: ArmContext, body: Body) -> str:
    """Return the subnet of a new scale set, if addresses identify machines."""
    if not context.settings.by_address:
        return ""
    for reference in BY_SOURCE[SCALE_SET.lower()]:
        for link in links(body, reference.path) if reference.target == SUBNET else ():
            return await of_configuration(context, {"subnet": link.holder})
    return ""


async def of_configuration(context: ArmContext, configuration: Body) -> str:
    """Return the subnet of an IP configuration, as `core` has it; empty if it has no range."""
    id_ = parse_id((configuration.get("subnet") or {}).get("id"))
    net = await address_range(context, id_) if id_ else None
    if net is None:
        return ""
    largest = max(net.prefixlen, limits.SUBNET_PREFIX_MIN)  # of a larger one, the first part
    return str(IPv4Network((net.network_address, largest)))
