"""Subnets: every machine of a subnet has an address of its own (M22).

An address is given again only after all others of its subnet, so that a machine is not mistaken for
one that was deleted a moment ago.
"""

from collections.abc import Collection, Iterable
from ipaddress import IPv4Network

from fairwarning.core.decision import EntityDecision
from fairwarning.core.errors import AddressTaken, Conflict
from fairwarning.core.messages import ClaimAddress, ReleaseAddress
from fairwarning.core.model import Machine, Subnet
from fairwarning.core.record import changed

_RESERVED = 4  # at the start, as on Azure: the network, the gateway, two name servers
_LAST = 1  # at the end: the broadcast address


def contains(subnet: str, address: str) -> bool:
    """Whether an address belongs to a subnet; no address belongs to the subnet without a name."""
    return bool(subnet and address) and _offset(IPv4Network(subnet), address) is not None


def assign(
    subnet: Subnet, machines: Iterable[Machine], taken: Collection[str] = ()
) -> tuple[Subnet, tuple[Machine, ...]]:
    """Give an address to each machine that has none, and claim those that machines bring.

    `taken` are addresses that machines of other subnets have, or of none.
    """
    machines = tuple(machines)
    for machine in machines:
        if contains(subnet.id, machine.address):
            subnet = claim(subnet, machine.address)
    net = IPv4Network(subnet.id)
    used, start = _bits(subnet), subnet.next
    avoided = used | _mask(net, taken)
    addressed: list[Machine] = []
    for machine in machines:
        if machine.address:
            addressed.append(machine)
            continue
        offset = _free(avoided, start, net.num_addresses - _LAST)
        if offset is None:
            raise Conflict("SubnetFull", _full(subnet.id, machines, addressed, net))
        used, avoided, start = used | 1 << offset, avoided | 1 << offset, offset + 1
        addressed.append(changed(machine, address=str(net[offset])))
    return changed(subnet, used=f"{used:x}", next=start), tuple(addressed)


def claim(subnet: Subnet, address: str) -> Subnet:
    """Mark an address of the subnet as used."""
    bit, used = _bit(subnet, address), _bits(subnet)
    if used & bit:
        raise AddressTaken(address)
    return changed(subnet, used=f"{used | bit:x}")


def release(subnet: Subnet, address: str) -> Subnet:
    """Mark an address of the subnet as free."""
    return changed(subnet, used=f"{_bits(subnet) & ~_bit(subnet, address):x}")


def decide(subnet: Subnet, command: ClaimAddress | ReleaseAddress) -> EntityDecision:
    """Decide `command` on a subnet; it exists from its first machine on."""
    act = claim if isinstance(command, ClaimAddress) else release
    return EntityDecision(act(subnet, command.address))


def _bits(subnet: Subnet) -> int:
    return int(subnet.used, 16)


def _bit(subnet: Subnet, address: str) -> int:
    offset = _offset(IPv4Network(subnet.id), address)
    assert offset is not None
    return 1 << offset


def _offset(net: IPv4Network, address: str) -> int | None:
    """The place of an address in a network; None if it is elsewhere or an IPv6 address."""
    parts = address.split(".")
    if len(parts) != 4:  # noqa: PLR2004  (bytes of an IPv4 address)
        return None
    offset = int.from_bytes(map(int, parts)) - int(net.network_address)
    return offset if 0 <= offset < net.num_addresses else None


def _mask(net: IPv4Network, addresses: Iterable[str]) -> int:
    offsets = (_offset(net, address) for address in addresses)
    return sum(1 << offset for offset in set(offsets) if offset is not None)


def _free(used: int, start: int, end: int) -> int | None:
    """The first free place from `start` on, then from the first one; None if there is none."""
    for first in (max(start, _RESERVED), _RESERVED):
        free = ~used >> first << first & (1 << end) - 1
        if free:
            return (free & -free).bit_length() - 1
    return None


def _full(
    subnet: str, machines: tuple[Machine, ...], addressed: list[Machine], net: IPv4Network
) -> str:
    wanted = sum(not machine.address for machine in machines)
    had = wanted - sum(not machine.address for machine in machines[len(addressed) :])
    return (
        f"subnet {subnet} has {had} of {net.num_addresses - _RESERVED - _LAST} addresses free, but"
        f" {wanted} are needed; use a larger subnet, or delete machines first"
    )
