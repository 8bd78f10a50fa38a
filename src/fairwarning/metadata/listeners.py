"""Sockets that listen: on an address, for all of loopback, or on a Unix socket of one machine."""

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from fairwarning.core.errors import Refused

BACKLOG = 1024
_LINUX = sys.platform.startswith("linux")
_LOOPBACK = "127."
_OWNER_ONLY = 0o600


def is_loopback(host: str) -> bool:
    """Whether this is a local run: each machine asks at an address of its own (M22)."""
    return host.startswith(_LOOPBACK) or host == "localhost"


def open_tcp(
    host: str, port: int, *, exact: bool = False, shared: bool = False, listening: bool = True
) -> socket.socket:
    """A listener for machines on a host's address; on a loopback one, for all of 127/8.

    If it is `exact`, it is for people: on that address alone, and however far away they are.

    There is no address that means "all of loopback", so that one takes every address but hears only
    the loopback device; a caller from elsewhere is not even answered.

    If it is `shared`, others of ours may listen there too, and the system shares callers out.
    """
    everywhere = is_loopback(host) and not exact
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if not exact:
            _one_hop(listener)
        if everywhere and _LINUX:
            with suppress(OSError):  # an old kernel: the address is checked in any case
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        listener.bind(("0.0.0.0" if everywhere else host, port))  # noqa: S104  (see above)
        if _LINUX:
            # Who opens a connection for each poll speaks at once: no need to look before that.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
        if listening:
            listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        why = error.strerror or error
        raise Refused("CannotListen", f"cannot listen on {host}:{port}: {why}") from error
    return listener


def _one_hop(listener: socket.socket) -> None:
    """A machine that is more than one hop away is not on this host's own network."""
    if listener.family == socket.AF_INET:
        listener.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
    else:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 1)


def open_unix(path: Path) -> socket.socket:
    """A listener on a Unix socket that only its owner may use; an old one is replaced."""
    if path.is_socket():
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        os.chmod(path, _OWNER_ONLY)  # noqa: PTH101  (one call, by the name that was bound)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Refused("CannotListen", f"cannot listen on {path}: {error}") from error
    return listener
