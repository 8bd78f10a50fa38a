"""Find the endpoint (G2): as configured, at Azure's address, or by DHCP, in this order.

A machine outside a virtual network finds it by DHCP. Azure's hosts answer a DISCOVER without
options; option 245 of their OFFER is the address that serves the guest.
"""

from __future__ import annotations

import os
import socket
import time
from ipaddress import IPv4Address

from fairwarning.core.errors import Unavailable
from fairwarning.guest.endpoint import LINK_LOCAL, VARIABLE, endpoint
from fairwarning.guest.session import HttpRequest
from fairwarning.guest.transport import HttpTransport

_PROBE_SECONDS = 2.0
_OFFER_SECONDS = 10.0
_PACKET_BYTES = 4096

SERVER_PORT, CLIENT_PORT = 67, 68
_OPTION_ENDPOINT = 245
_OPTION_TYPE, _OPTION_PAD, _OPTION_END = 53, 0, 255
_DISCOVER = 1
_REQUEST, _REPLY = 1, 2
_ETHERNET, _MAC_BYTES = 1, 6
_BROADCAST = 0x8000
_COOKIE = b"\x63\x82\x53\x63"
_HEADER_BYTES = 236
_MIN_PACKET_BYTES = 300  # old relays drop shorter packets


def discover(configured: str | None = None) -> str:
    """Return the URL of the endpoint; raise `Unavailable` with all attempts if there is none.

    A configured endpoint is not probed. DHCP needs the right to use port 68, which usually only
    root has.
    """
    if configured or os.environ.get(VARIABLE):
        return str(endpoint(configured))
    tried = [f"{LINK_LOCAL} does not answer"]
    if answers(LINK_LOCAL):
        return LINK_LOCAL
    try:
        if url := by_dhcp():
            return url
        tried.append("no DHCP server sent option 245")
    except OSError as error:
        tried.append(f"cannot query DHCP servers: {error}")
    text = f"no endpoint found: {'; '.join(tried)}. Set {VARIABLE} to its URL"
    raise Unavailable("NoEndpoint", text)


def answers(url: str) -> bool:
    """Whether an HTTP server answers at this URL, with any status."""
    path, headers = "/metadata/versions", {"Metadata": "true"}
    transport = HttpTransport(endpoint(url))
    try:
        transport.send(HttpRequest("GET", path, headers, b"", _PROBE_SECONDS))
    except OSError:
        return False
    finally:
        transport.close()
    return True


def by_dhcp() -> str | None:
    """Return the endpoint from a DHCP offer; None if no server sends one in time."""
    import secrets  # noqa: PLC0415  (imported on use, to keep the agent small)
    import uuid  # noqa: PLC0415  (as above)

    transaction, mac = secrets.randbits(32), uuid.getnode().to_bytes(6, "big")
    deadline = time.monotonic() + _OFFER_SECONDS
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind(("", CLIENT_PORT))
        client.sendto(discover_packet(transaction, mac), ("255.255.255.255", SERVER_PORT))
        while (left := deadline - time.monotonic()) > 0:
            client.settimeout(left)
            try:
                packet = client.recv(_PACKET_BYTES)
            except socket.timeout:  # before Python 3.10 not the same as `TimeoutError`
                return None
            if endpoint_address := offered_endpoint(packet, transaction, mac):
                return f"http://{endpoint_address}"
    return None


# --- DHCP packets ---------------------------------------------------------------------------------


def discover_packet(transaction: int, mac: bytes) -> bytes:
    """Return a DISCOVER packet to broadcast."""
    assert len(mac) == _MAC_BYTES
    header = bytes((_REQUEST, _ETHERNET, _MAC_BYTES, 0))
    header += transaction.to_bytes(4, "big") + bytes(2) + _BROADCAST.to_bytes(2, "big")
    header += bytes(16)  # four addresses, all unknown
    header += mac + bytes(_HEADER_BYTES - len(header) - len(mac))
    options = bytes((_OPTION_TYPE, 1, _DISCOVER, _OPTION_END))
    return (header + _COOKIE + options).ljust(_MIN_PACKET_BYTES, b"\0")


def offered_endpoint(packet: bytes, transaction: int, mac: bytes) -> IPv4Address | None:
    """Return the endpoint in the answer to our DISCOVER; None in any other packet."""
    if len(packet) < _HEADER_BYTES + len(_COOKIE) or packet[0] != _REPLY:
        return None
    ours = packet[4:8] == transaction.to_bytes(4, "big") and packet[28 : 28 + _MAC_BYTES] == mac
    if not ours or packet[_HEADER_BYTES : _HEADER_BYTES + 4] != _COOKIE:
        return None
    raw = _options(packet[_HEADER_BYTES + 4 :]).get(_OPTION_ENDPOINT, b"")
    return IPv4Address(raw) if len(raw) == 4 else None  # noqa: PLR2004  (bytes of an address)


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
