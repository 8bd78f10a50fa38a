"""Discovery of the endpoint by DHCP option 245 (G2). Pure: bytes in, bytes out.

A machine outside a virtual network finds the endpoint this way. Azure's hosts answer a DISCOVER
without options; option 245 of their OFFER is the address that serves the guest.
"""

from __future__ import annotations

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
_MIN_PACKET_BYTES = 300  # old relays drop shorter packets


@dataclass(frozen=True)
class DhcpOffer:
    """A DHCP server's offer: its options by number."""

    options: dict[int, bytes]

    @property
    def endpoint(self) -> IPv4Address | None:
        """The address that serves the guest, if the offer contains one."""
        raw = self.options.get(OPTION_ENDPOINT, b"")
        return IPv4Address(raw) if len(raw) == 4 else None  # noqa: PLR2004  (bytes of an address)


def discover(transaction: int, mac: bytes) -> bytes:
    """Return a DISCOVER packet to broadcast."""
    assert len(mac) == _MAC_BYTES
    header = bytes((_REQUEST, _ETHERNET, _MAC_BYTES, 0))
    header += transaction.to_bytes(4, "big") + bytes(2) + _BROADCAST.to_bytes(2, "big")
    header += bytes(16)  # four addresses, all unknown
    header += mac + bytes(_HEADER_BYTES - len(header) - len(mac))
    options = bytes((_OPTION_TYPE, 1, _DISCOVER, _OPTION_END))
    return (header + _COOKIE + options).ljust(_MIN_PACKET_BYTES, b"\0")


def offer(packet: bytes, transaction: int, mac: bytes) -> DhcpOffer | None:
    """Parse the answer to our DISCOVER; None if the packet is anything else."""
    if len(packet) < _HEADER_BYTES + len(_COOKIE) or packet[0] != _REPLY:
        return None
    ours = packet[4:8] == transaction.to_bytes(4, "big") and packet[28 : 28 + _MAC_BYTES] == mac
    if not ours or packet[_HEADER_BYTES : _HEADER_BYTES + 4] != _COOKIE:
        return None
    return DhcpOffer(_options(packet[_HEADER_BYTES + 4 :]))


def _options(raw: bytes) -> dict[int, bytes]:
    """Return options by number; of a truncated list, the complete ones."""
    options: dict[int, bytes] = {}
    offset = 0
    while offset < len(raw) and raw[offset] != _OPTION_END:
        if raw[offset] == _OPTION_PAD:
            offset += 1
            continue
        size = raw[offset + 1] if offset + 1 < len(raw) else len(raw)
        value = raw[offset + 2 : offset + 2 + size]
        if len(value) < size:
            break
        # A long option comes in several parts.
        options[raw[offset]] = options.get(raw[offset], b"") + value
        offset += 2 + size
    return options
