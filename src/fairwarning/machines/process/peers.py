"""Checks which process a control connection comes from.

A program inside a machine has the user and the files of the service, so it can reach the control
socket. Its network namespace, which it cannot leave, tells it apart. Only root can leave it. A
program that runs without namespaces cannot be told apart.
"""

import errno
import os
import signal
import socket
import struct
import sys
from pathlib import Path

from fairwarning.core.errors import Refused

_SO_PEERPIDFD = 77  # Linux 6.5; not in Python's socket module
_CREDENTIALS = struct.Struct("3i")  # pid, user, group


def check_peer(connection: socket.socket) -> None:
    """Raise Refused unless the other end is this user's or root's, and outside every machine.

    Without namespaces, as on macOS, the permissions of the control socket decide alone.
    """
    if not sys.platform.startswith("linux"):
        return
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(credentials)
    if user not in {0, os.getuid()}:
        raise Refused("NotAllowed", "this service belongs to another user; run one of your own")
    if user != os.getuid():
        return  # root, whose processes another user may not inspect
    try:
        network = _network_of(connection, pid)
    except OSError as error:
        text = f"cannot tell where exec runs ({error.strerror}); run it on the service's host"
        raise Refused("NotAllowed", text) from error
    if network != Path("/proc/self/ns/net").readlink():
        text = (
            "a program inside a machine cannot act as another one; run `fairwarning exec` in the"
            " network namespace of the service"
        )
        raise Refused("NotAllowed", text)


def _network_of(connection: socket.socket, pid: int) -> Path:
    process = _open_process(connection, pid)
    try:
        network = Path(f"/proc/{pid}/ns/net").readlink()
        if process is not None:  # still the same process: its pid was not reused
            signal.pidfd_send_signal(process, 0)
    finally:
        if process is not None:
            os.close(process)
    return network


def _open_process(connection: socket.socket, pid: int) -> int | None:
    """Return a pidfd of the other end; None on kernels without pidfds."""
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            raise
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    return None
