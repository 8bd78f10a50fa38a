"""Private addresses of network interfaces: no two of a subnet have the same.

A reservation is a resource of its own, which the interface owns. The store creates it only once, so
that concurrent requests do not get the same address.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network
from itertools import chain, islice

from fairwarning.arm.http.errors import azure_error
from fairwarning.arm.types.context import ArmContext
from fairwarning.arm.types.references import read_all
from fairwarning.core.commands import Write
from fairwarning.service import resources

KIND = "Microsoft.Network/virtualNetworks/subnets/addresses"
"""The kind of reservations. They are not resources of Azure, so no list shows them."""

_RESERVED = 4  # Azure reserves the first four addresses of a subnet
_LAST = 1  # the broadcast address
_AT_ONCE = 64  # reservations that are read together


@dataclass(frozen=True)
class AddressRange:
    """A subnet that gives addresses: its group, its name as `network/subnet`, and its addresses."""

    group: str
    name: str
    net: IPv4Network

    def reservation(self, address: str) -> str:
        """Return the id of an address's reservation."""
        return resources.resource_id(KIND, self.group, f"{self.name}/{address}")

    def write(self, address: str) -> Write:
        """Return the command that creates the reservation of an address."""
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
    existing = (await read_all(context, [id_])).get(id_)
    if existing is None:
        return Reservation(address, id_, (subnet.write(address),))
    return Reservation(address, id_) if existing.used_by in {"", user} else None


async def choose(
    context: ArmContext, subnet: AddressRange, user: str, taken: Collection[str], *, spread: bool
) -> Reservation:
    """Reserve a free address: one of the first, or with `spread` one anywhere in the subnet.

    `taken` are reservations of the same request.
    """
    usable = range(_RESERVED, subnet.net.num_addresses - _LAST)
    start = int.from_bytes(sha256(user.encode()).digest()[:8]) % len(usable)
    first = () if spread else usable[:_AT_ONCE]
    offsets = chain(first, usable[start:], usable[:start])
    while batch := list(islice(offsets, _AT_ONCE)):
        await asyncio.sleep(0)  # other requests go on
        addresses = [str(subnet.net[offset]) for offset in batch]
        rows = await read_all(context, map(subnet.reservation, addresses))
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
    if not _RESERVED <= offset < net.num_addresses - _LAST:
        raise azure_error("PrivateIPAddressNotInSubnet", address=address, net=net)
