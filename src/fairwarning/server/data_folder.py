"""The data folder of a service: which one it may have, and its lock while the service is up."""

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairwarning.core.errors import Refused, Unavailable
from fairwarning.server.ready import remove_ready, version_of_ready

_OWNER_ONLY = 0o700
_MOUNTS = Path("/proc/self/mountinfo")  # Linux only; elsewhere nothing is refused
_NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "lustre", "ncpfs", "nfs",
    "nfs4", "orangefs", "smb3", "smbfs", "virtiofs",
}  # fmt: skip
_LOCAL_FUSE = {"fuse.fuse-overlayfs"}  # the root file system of a rootless container
_ESCAPE = re.compile(r"\\([0-7]{3})")


@contextmanager
def lock(folder: Path, *, memory: bool) -> Iterator[Callable[[], None]]:
    """Lock the folder; yield a function that removes what no other process may find afterwards.

    The context calls it at the end. An in-memory service that created the folder removes it too.
    """
    check_access(folder)
    created = not folder.exists()
    try:
        folder.mkdir(_OWNER_ONLY, parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _cannot_use(folder, error) from error
    held = False
    before = version_of_ready(folder)  # of a service that was killed, or whose lock was removed

    def remove_files() -> None:
        if held:  # only with the lock: these are the files of the service that holds it
            remove_ready(folder, before)
            if memory and created:
                _clear(folder)

    try:
        _acquire(descriptor, folder)
        held = True
        try:
            yield remove_files
        finally:
            remove_files()
            held = False
    finally:
        os.close(descriptor)


def check_access(folder: Path) -> None:
    """Raise `Refused` if this user may not look into the folder."""
    try:
        if folder.exists():
            os.scandir(folder).close()
    except OSError as error:
        raise _cannot_use(folder, error) from error


def _cannot_use(folder: Path, error: OSError) -> Refused:
    text = f"cannot use data folder {folder}: {error.strerror}"
    hint = "; use another with --data, or run as the user that owns it"
    return Refused("CannotUseFolder", text + (hint if isinstance(error, PermissionError) else ""))


def _clear(folder: Path) -> None:
    """Remove the files of the service, and the folder if it is then empty."""
    for name in ("lock", "signing.key", "ca.pem", "ca.key", "server.pem"):
        (folder / name).unlink(missing_ok=True)
    for name in ("attached", "impacts", "machines", "azure-cli"):
        shutil.rmtree(folder / name, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def _acquire(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        text = f"a service is already running in {folder}; stop it, or use another --data folder"
        raise Unavailable("AlreadyUp", text) from error


def refuse_network(folder: Path) -> None:
    """Raise `Refused` if the folder is, or would be created, on a network file system (E9).

    There a lock may not keep out a service on another host, and two of them destroy the database;
    data that was synced may also be on no disk yet.
    """
    try:
        mounts = _MOUNTS.read_text("utf-8", "surrogateescape")
    except OSError:
        return
    # Not `stat`, which may block while the file server does not respond.
    kind = file_system(os.path.realpath(folder), mounts)
    if kind in _NETWORK or (kind.startswith("fuse") and kind not in _LOCAL_FUSE | {"fuseblk"}):
        raise Refused(
            "NetworkFileSystem",
            f"data folder {folder} is on a network file system ({kind}), where locks may not work;"
            " use a local disk, --memory, or a database (--data postgresql://...)."
            " With --allow-network-folder you can use it if only this host does",
        )


def file_system(path: str, mounts: str) -> str:
    """Return the type of the file system of an absolute path, given the lines of mountinfo."""
    kind, longest = "", -1
    for line in mounts.splitlines():
        mount, _, source = line.partition(" - ")
        point = _ESCAPE.sub(lambda code: chr(int(code[1], 8)), mount.split(" ")[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # a later mount hides an earlier one
            kind, longest = source.split(" ")[0], len(point)
    return kind
