"""Looks for the endpoint (G2): as told, else where Azure has it, else by asking a DHCP server."""

import http.client
import os
import socket
import time
from collections.abc import Callable

from fairwarning.core.errors import Unavailable
from fairwarning.guest import dhcp
from fairwarning.guest.endpoint import LINK_LOCAL, VARIABLE, endpoint

_PROBE_SECONDS = 2.0
_OFFER_SECONDS = 10.0
_PACKET_BYTES = 4096


def discover(given: str | None = None, *, ask_dhcp: bool = True) -> str:
    """The URL of the endpoint; `Unavailable` with what was tried where there is none.

    What is given, or named by the environment, is taken at its word. Asking a DHCP server takes
    the right to use port 68, which as a rule is root's.
    """
    if given or os.environ.get(VARIABLE):
        return str(endpoint(given))
    tried = [f"{LINK_LOCAL} does not answer"]
    if answers(LINK_LOCAL):
        return LINK_LOCAL
    if ask_dhcp:
        try:
            if found := by_dhcp():
                return found
            tried.append("no DHCP server names one (option 245)")
        except OSError as error:
            tried.append(f"no DHCP server could be asked: {error}")
    text = f"no endpoint was found: {'; '.join(tried)}. Name one with {VARIABLE}"
    raise Unavailable("NoEndpoint", text)


def answers(url: str) -> bool:
    """Whether something speaks HTTP there, whatever it says."""
    where = endpoint(url)
    connection = http.client.HTTPConnection(where.host, where.port, timeout=_PROBE_SECONDS)
    try:
        connection.request("GET", f"{where.base}/metadata/versions", headers={"Metadata": "true"})
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def by_dhcp(*, mac: bytes | None = None, now: Callable[[], float] = time.monotonic) -> str | None:
    """The endpoint that a DHCP server names; None if none does in time."""
    import secrets  # noqa: PLC0415  (only here, and an agent is to be small)
    import uuid  # noqa: PLC0415  (as above)

    transaction, mac = secrets.randbits(32), mac or uuid.getnode().to_bytes(6)
    ends = now() + _OFFER_SECONDS
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        asking.bind(("", dhcp.CLIENT_PORT))
        asking.sendto(dhcp.discover(transaction, mac), ("255.255.255.255", dhcp.SERVER_PORT))
        while (left := ends - now()) > 0:
            asking.settimeout(left)
            try:
                packet = asking.recv(_PACKET_BYTES)
            except TimeoutError:
                return None
            offered = dhcp.offer(packet, transaction, mac)
            if offered and offered.endpoint:
                return f"http://{offered.endpoint}"
    return None
