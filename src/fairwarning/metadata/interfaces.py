"""The network interface that a machine sees in its instance metadata (M19). Pure.

Its address is the one that the fleet file gives the machine, or that of its ARM network interface.
Otherwise it follows from the machine's number, as does the MAC address of a machine without an ARM
network interface. The store assigns numbers once and never reuses them, so these values are unique
and never change.
"""

from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from itertools import count

from fairwarning.core.record import changed, short_record

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
