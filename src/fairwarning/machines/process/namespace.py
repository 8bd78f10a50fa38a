"""Linux namespaces, without root: they give a process its own network, host name and pids (O3).

Uses system calls directly, as `os.unshare` needs Python 3.12.
"""

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fcntl import ioctl
from pathlib import Path
from tempfile import TemporaryDirectory

from fairwarning.core.errors import FairwarningError, Refused, reason_of

ENDPOINT = ("169.254.169.254", 80)  # the metadata endpoint of every Azure machine
ENDPOINT_URL = f"http://{ENDPOINT[0]}"
HOST_NAME_BYTES = 64  # the kernel's limit

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_MACHINE = _CLONE_NEWNET | _CLONE_NEWUTS | _CLONE_NEWPID
_KINDS = ("user", "net", "uts", "pid")  # of namespaces, each with a limit of its own

_SIOCSIFFLAGS = 0x8914
_SIOCSIFADDR = 0x8916
_SIOCSIFNETMASK = 0x891C
_IFF_UP = 0x1
_LOOPBACK_NETWORK = 127

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND = 0x2, 0x4, 0x8, 0x1000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_MNT_DETACH = 0x2
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_OTHER_USER = "programs of another user run in this machine; run exec as that user"

_libc = ctypes.CDLL(None, use_errno=True)


def create() -> None:
    """Give this process its own network and host name, and its children their own pids.

    The network has only loopback, with the metadata endpoint's address added. Root keeps all users;
    another user has only its own. Raises FairwarningError if the system forbids it; the process is
    then half set up and can do no more than report the error.
    """
    try:
        if os.geteuid() != 0 or not _unshare_as_root(_MACHINE):
            _unshare_as_user(_MACHINE)
        _raise_loopback()
    except OSError as error:
        raise FairwarningError("NamespacesForbidden", _forbidden(error)) from error
    with suppress(OSError):  # the connections of an endpoint that is closed go to another program's
        Path("/proc/sys/net/ipv4/tcp_migrate_req").write_text("1")


def join(user: int, network: int) -> None:
    """Give this process the network of another program, and else what `create` does.

    The arguments are descriptors of its namespaces. Raises Refused if it belongs to another user.
    """
    try:
        try:
            _setns(network)
        except PermissionError:  # not root
            _setns(user)
            _setns(network)
        _unshare(_CLONE_NEWUTS | _CLONE_NEWPID)
    except OSError as error:
        raise Refused("NotAllowed", _OTHER_USER) from error


@contextmanager
def opened() -> Iterator[tuple[int, int]]:
    """Provide descriptors of the user and network namespace of this process."""
    namespaces = Path("/proc/self/ns")
    with (namespaces / "user").open() as user, (namespaces / "net").open() as network:
        yield user.fileno(), network.fileno()


def _unshare_as_root(flags: int) -> bool:
    """Return False if root may not do it without a user namespace, as in most containers."""
    try:
        _unshare(flags)
    except PermissionError:
        return False
    return True


def _unshare_as_user(flags: int) -> None:
    user, group = os.geteuid(), os.getegid()
    _unshare(_CLONE_NEWUSER | flags)
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def bind_endpoint() -> socket.socket:
    """Return a socket with the address of the metadata endpoint. Only works inside the namespace.

    Any process may open and close the endpoint with it. Each program of a machine has such a
    socket; a connection goes to one that is open. Raises Refused if one belongs to another user.
    """
    endpoint = socket.socket()
    try:
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        endpoint.bind(ENDPOINT)
    except OSError as error:
        endpoint.close()
        raise Refused("NotAllowed", _OTHER_USER) from error
    return endpoint


def open_endpoint(endpoint: socket.socket) -> None:
    """Accept connections."""
    endpoint.listen(128)


def close_endpoint(endpoint: socket.socket) -> None:
    """Refuse connections, even if another process holds the socket. It can be opened again."""
    with suppress(OSError):
        endpoint.shutdown(socket.SHUT_RDWR)


def name_host(host_name: str) -> str:
    """Set the machine's host name; return it, shortened to the kernel's limit."""
    name = host_name.encode()[:HOST_NAME_BYTES].decode(errors="ignore")
    with suppress(OSError):
        socket.sethostname(name)
    return name


def own_mounts() -> bool:
    """Give this process mounts of its own, and return whether the system allows it."""
    try:
        _unshare(_CLONE_NEWNS)
        _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    except OSError:
        return False
    return True


def mount_proc() -> None:
    """Mount /proc for process 1 of a PID namespace and its children. Needs `own_mounts`.

    Some containers forbid it; programs then see the outer /proc, with no other effect.
    """
    with suppress(OSError):
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def mount_texts(texts: Mapping[str, str], folder: Path) -> None:
    """Have this process and its children read other texts in files. Needs `own_mounts`.

    They are on a file system of their own, mounted in `folder` for a moment: nothing is left there,
    and a program can mount over them, which the kernel forbids for files that are deleted. Where a
    file does not exist, or the system forbids to mount over it, it stays as it is.
    """
    with suppress(OSError), TemporaryDirectory(dir=folder) as place:
        _mount("tmpfs", place, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        for number, (path, text) in enumerate(texts.items()):
            file = Path(place, str(number))
            file.write_text(text)
            file.chmod(0o644)
            with suppress(OSError):
                _mount(str(file), path, None, _MS_BIND)
        _call(_libc.umount2(place.encode(), _MNT_DETACH))


def die_with_parent(signal: int) -> None:
    """Have the kernel send this signal when the parent ends. It may have ended already."""
    _call(_libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0))


def adopt_orphans() -> None:
    """Make this process the parent of orphans among its descendants."""
    _call(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def add_address(address: str) -> None:
    """Add an IPv4 address to loopback. Only works inside the namespace; may be repeated."""
    number = socket.inet_aton(address)
    if number[0] == _LOOPBACK_NETWORK:
        return  # loopback has them all
    label = f"lo:{number.hex()}".encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for request, value in ((_SIOCSIFADDR, number), (_SIOCSIFNETMASK, b"\xff" * 4)):
            ioctl(any_socket, request, struct.pack("16sH2x4s16x", label, socket.AF_INET, value))


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _IFF_UP))
    add_address(ENDPOINT[0])


def _unshare(flags: int) -> None:
    _call(_libc.unshare(flags))


def _setns(namespace: int) -> None:
    _call(_libc.setns(namespace, 0))


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind)]
    _call(_libc.mount(*texts, ctypes.c_ulong(flags), None))


def reason(error: OSError) -> str:
    """Return why no namespace could be created. ENOSPC is a limit, not a full disk."""
    if error.errno != errno.ENOSPC:
        return reason_of(error)
    limits = {
        kind: int(Path(f"/proc/sys/user/max_{kind}_namespaces").read_text()) for kind in _KINDS
    }
    reached = [kind for kind in _KINDS if not limits[kind]] or _KINDS
    return f"the limit {' or '.join(f'user.max_{kind}_namespaces' for kind in reached)} is reached"


def _call(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _forbidden(error: OSError) -> str:
    return f"""this system does not let a user create namespaces ({reason(error)}).
Without them, run the program with --isolation none, which says what it cannot show.
Or have an administrator allow them with whichever of these settings the system has:
  sysctl user.max_user_namespaces=15000
  sysctl kernel.unprivileged_userns_clone=1
  sysctl kernel.apparmor_restrict_unprivileged_userns=0
In a container, the runtime must allow the system call `unshare` as well."""
