"""DHCP, as far as it tells where the endpoint is: option 245 (G2). Pure: bytes in, bytes out.

A machine outside a virtual network finds the endpoint so. Azure's hosts answer a DISCOVER that asks
for nothing, and say in option 245 of their OFFER which address serves the guest.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address

SERVER_PORT, CLIENT_PORT = 67, 68
OPTION_ENDPOINT = 245
_OPTION_TYPE, _OPTION_PAD, _OPTION_END = 53, 0, 255
_DISCOVER = 1
_REQUEST, _REPLY = 1, 2
_ETHERNET, _MAC_BYTES = 1, 6
_BROADCAST = 0x8000
_COOKIE = b"\x63\x82\x53\x63"
_HEADER_BYTES = 236
_SMALLEST_BYTES = 300  # below, old relays drop a packet


@dataclass(frozen=True, slots=True)
class DhcpOffer:
    """What a server answered: its options by number."""

    options: dict[int, bytes]

    @property
    def endpoint(self) -> IPv4Address | None:
        """The address that serves the guest, if the server named one."""
        raw = self.options.get(OPTION_ENDPOINT, b"")
        return IPv4Address(raw) if len(raw) == 4 else None  # noqa: PLR2004  (bytes of an address)


def discover(transaction: int, mac: bytes) -> bytes:
    """A DISCOVER packet, to be broadcast."""
    assert len(mac) == _MAC_BYTES
    header = bytes((_REQUEST, _ETHERNET, _MAC_BYTES, 0))
    header += transaction.to_bytes(4) + (0).to_bytes(2) + _BROADCAST.to_bytes(2)
    header += bytes(16)  # four addresses, none of which we know
    header += mac + bytes(_HEADER_BYTES - len(header) - len(mac))
    options = bytes((_OPTION_TYPE, 1, _DISCOVER, _OPTION_END))
    return (header + _COOKIE + options).ljust(_SMALLEST_BYTES, b"\0")


def offer(packet: bytes, transaction: int, mac: bytes) -> DhcpOffer | None:
    """The answer to our DISCOVER; None if the packet is anything else."""
    if len(packet) < _HEADER_BYTES + len(_COOKIE) or packet[0] != _REPLY:
        return None
    ours = packet[4:8] == transaction.to_bytes(4) and packet[28 : 28 + _MAC_BYTES] == mac
    if not ours or packet[_HEADER_BYTES : _HEADER_BYTES + 4] != _COOKIE:
        return None
    return DhcpOffer(_options(packet[_HEADER_BYTES + 4 :]))


def _options(raw: bytes) -> dict[int, bytes]:
    """Options by number; a list that is cut short gives those that are whole."""
    found: dict[int, bytes] = {}
    place = 0
    while place < len(raw) and raw[place] != _OPTION_END:
        if raw[place] == _OPTION_PAD:
            place += 1
            continue
        size = raw[place + 1] if place + 1 < len(raw) else len(raw)
        value = raw[place + 2 : place + 2 + size]
        if len(value) < size:
            break
        found[raw[place]] = found.get(raw[place], b"") + value  # long ones come in parts
        place += 2 + size
    return found
