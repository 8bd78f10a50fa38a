"""Listening sockets: on an address, on all of loopback, or on a machine's Unix socket."""

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from fairwarning.core.errors import Refused, reason_of
from fairwarning.core.record import record

BACKLOG = 4096  # as Linux allows by default; a client beyond it tries again after a second
LAST_PORT = 65535
IPV4_LOOPBACK = "127.0.0.1"
IPV6_LOOPBACK = "::1"
_LINUX = sys.platform.startswith("linux")
_LOOPBACK = "127."
_MACHINE = "127.1.0.1"  # the address of the first machine
_OWNER_ONLY = 0o600


@record
class PortRange:
    """The ports that machines may have."""

    first: int
    last: int = LAST_PORT

    @property
    def size(self) -> int:
        """How many machines can have a port at the same time."""
        return self.last - self.first + 1

    def port(self, number: int) -> int:
        """Return the port of the machine with this number in the fleet, the same in every run."""
        return self.first + (number - 1) % self.size


def is_loopback(host: str) -> bool:
    """Whether only clients on this host can connect to this address."""
    return host.startswith(_LOOPBACK) or host in {"localhost", IPV6_LOOPBACK}


def loopback_host() -> str:
    """Return the loopback address of this system: 127.0.0.1, or ::1 if there is no IPv4."""
    usable = (host for host in (IPV4_LOOPBACK, IPV6_LOOPBACK) if _can_bind(host))
    return next(usable, IPV4_LOOPBACK)


def has_machine_addresses() -> bool:
    """Whether each machine can have its own address in 127.0.0.0/8; macOS has only 127.0.0.1."""
    return _can_bind(_MACHINE)


def _can_bind(host: str) -> bool:
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def open_tcp(
    host: str,
    port: int,
    *,
    exact: bool = False,
    single: bool = False,
    shared: bool = False,
    listening: bool = True,
) -> socket.socket:
    """Return a socket for machines on a host address; an IPv4 loopback host means all of 127/8.

    No address means "all of loopback", so the socket binds to every address but only to the
    loopback device; packets from other devices get no reply.

    With `single`, listen on that address alone. With `exact`, listen on that address alone and for
    clients at any distance, as the console does. With `shared`, other processes may listen on the
    same address; the kernel distributes connections among them.
    """
    host = loopback_host() if host == "localhost" else host
    all_loopback = host.startswith(_LOOPBACK) and not (exact or single)
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if not exact:
            _limit_to_one_hop(listener)
        if all_loopback and _LINUX:
            with suppress(OSError):  # an old kernel refuses; the caller's address is still checked
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        listener.bind(("0.0.0.0" if all_loopback else host, port))  # noqa: S104  (see above)
        if _LINUX:
            # Clients send their request at once: accept only connections that have data.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
        if listening:
            listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        reason = error.strerror or error
        raise Refused("CannotListen", f"cannot listen on {host}:{port}: {reason}") from error
    return listener


def _limit_to_one_hop(listener: socket.socket) -> None:
    """Keep responses on this host's own network: more than one hop away is not one of ours."""
    if listener.family == socket.AF_INET:
        listener.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
    else:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 1)


def open_unix(path: Path) -> socket.socket:
    """Return a listening Unix socket that only its owner may use; replace an old one."""
    if path.is_socket():
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        os.chmod(path, _OWNER_ONLY)  # noqa: PTH101  (one call, on the path that was bound)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Refused("CannotListen", f"cannot listen on {path}: {reason_of(error)}") from error
    return listener
