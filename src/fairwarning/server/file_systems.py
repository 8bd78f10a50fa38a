"""Refuses a data folder on a network file system (E9).

There a lock may not keep out a service on another host, and two of them destroy the database; data
that was synced may also be on no disk yet.
"""

import os
import re
from pathlib import Path

from fairwarning.core.errors import Refused

_MOUNTS = Path("/proc/self/mountinfo")  # Linux only; elsewhere nothing is refused
_NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "lustre", "ncpfs", "nfs",
    "nfs4", "orangefs", "smb3", "smbfs", "virtiofs",
}  # fmt: skip
_LOCAL_FUSE = {"fuse.fuse-overlayfs"}  # the root file system of a rootless container
_ESCAPE = re.compile(r"\\([0-7]{3})")


def refuse_network(folder: Path) -> None:
    """Raise `Refused` if the folder is, or would be created, on a network file system."""
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
