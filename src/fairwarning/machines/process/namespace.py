"""Namespaces of one's own, without root: what makes a process be somewhere else (O3).

Linux only, by its own system calls; `os.unshare` is not there before Python 3.12.
"""

import ctypes
import os
import socket
import struct
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path

from fairwarning.core.errors import FairwarningError

ENDPOINT = ("169.254.169.254", 80)  # where every machine in Azure asks
HOST_NAME_BYTES = 64  # what the kernel takes

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000

_SIOCSIFFLAGS = 0x8914
_SIOCSIFADDR = 0x8916
_SIOCSIFNETMASK = 0x891C
_IFF_UP = 0x1

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x8, 0x4000, 0x40000
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def enter() -> None:
    """Move this process to a network, a host name and (for its children) processes of its own.

    Inside there is nothing but loopback, which has the metadata endpoint's address too. The user
    stays who they are. Raises FairwarningError where the system forbids it; the process, then, is
    somewhere in between and good for nothing but to say so.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        _unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWUTS | _CLONE_NEWPID)
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        _raise_loopback()
    except OSError as error:
        raise FairwarningError("NamespacesForbidden", _forbidden(error)) from error


def open_endpoint() -> socket.socket:
    """A socket that listens where the metadata endpoint is. Only inside."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(ENDPOINT)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def close_endpoint(listener: socket.socket) -> None:
    """Whoever connects is refused from now on, even if others hold the same socket."""
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def name_host(host_name: str) -> None:
    """Give the machine its host name, as much of it as a host name can be."""
    name = host_name.encode()[:HOST_NAME_BYTES].decode(errors="ignore")
    with suppress(OSError):
        socket.sethostname(name)


def mount_proc() -> None:
    """Show the first process of a namespace, and its children, their own /proc.

    Some containers forbid it; programs then see the /proc of outside, and nothing else changes.
    """
    with suppress(OSError):
        _unshare(_CLONE_NEWNS)
        _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def die_with_parent(signal: int) -> None:
    """Let the kernel send this signal when the parent is gone. It may be gone already."""
    _call(_libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0))


def _raise_loopback() -> None:
    address, mask = socket.inet_aton(ENDPOINT[0]), socket.inet_aton("255.255.255.255")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _IFF_UP))
        for request, value in ((_SIOCSIFADDR, address), (_SIOCSIFNETMASK, mask)):
            ioctl(any_socket, request, struct.pack("16sH2x4s16x", b"lo:0", socket.AF_INET, value))


def _unshare(flags: int) -> None:
    _call(_libc.unshare(flags))


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind)]
    _call(_libc.mount(*texts, ctypes.c_ulong(flags), None))


def _call(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _forbidden(error: OSError) -> str:
    return f"""this system does not let a user make namespaces ({error.strerror}).
Without them, poll the address that `fairwarning up` prints for the machine, for instance
  curl -H Metadata:true "http://127.1.0.1:8169/metadata/scheduledevents?api-version=2020-07-01"
Or have them allowed, by whichever of these settings the system has:
  sysctl user.max_user_namespaces=15000
  sysctl kernel.unprivileged_userns_clone=1
  sysctl kernel.apparmor_restrict_unprivileged_userns=0
In a container, its runtime has to allow the system call `unshare` as well."""
