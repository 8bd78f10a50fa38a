"""Find the endpoint (G2): as configured, at Azure's address, or by DHCP, in this order."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

from fairwarning.core.errors import Unavailable
from fairwarning.guest import dhcp
from fairwarning.guest.endpoint import LINK_LOCAL, VARIABLE, endpoint
from fairwarning.guest.session import HttpRequest
from fairwarning.guest.transport import HttpTransport

_PROBE_SECONDS = 2.0
_OFFER_SECONDS = 10.0
_PACKET_BYTES = 4096


def discover(configured: str | None = None, *, ask_dhcp: bool = True) -> str:
    """Return the URL of the endpoint; raise `Unavailable` with all attempts if there is none.

    A configured endpoint is not probed. DHCP needs the right to use port 68, which usually only
    root has.
    """
    if configured or os.environ.get(VARIABLE):
        return str(endpoint(configured))
    tried = [f"{LINK_LOCAL} does not answer"]
    if answers(LINK_LOCAL):
        return LINK_LOCAL
    if ask_dhcp:
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


def by_dhcp(*, mac: bytes | None = None, now: Callable[[], float] = time.monotonic) -> str | None:
    """Return the endpoint from a DHCP offer; None if no server sends one in time."""
    import secrets  # noqa: PLC0415  (imported on use, to keep the agent small)
    import uuid  # noqa: PLC0415  (as above)

    transaction, mac = secrets.randbits(32), mac or uuid.getnode().to_bytes(6, "big")
    deadline = now() + _OFFER_SECONDS
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind(("", dhcp.CLIENT_PORT))
        client.sendto(dhcp.discover(transaction, mac), ("255.255.255.255", dhcp.SERVER_PORT))
        while (left := deadline - now()) > 0:
            client.settimeout(left)
            try:
                packet = client.recv(_PACKET_BYTES)
            except socket.timeout:  # before Python 3.10 not the same as `TimeoutError`
                return None
            offer = dhcp.offer(packet, transaction, mac)
            if offer and offer.endpoint:
                return f"http://{offer.endpoint}"
    return None
