"""The temporary disk of a machine: a folder below the service's data folder.

The program may remove its folder or put a link in its place, so no link is followed.
"""

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER_ONLY = 0o700


class TemporaryDisk:
    """The folder that a machine's programs have as $TMPDIR."""

    def __init__(self, data: Path, machine: str) -> None:
        self._data = data
        self._names = ("machines", _folder_name(machine), "tmp")
        self.path = data.joinpath(*self._names)

    def make(self) -> None:
        """Make the folder if it does not exist, or is something else."""
        with self._opened():
            pass

    def empty(self) -> None:
        """Remove everything in the folder; make it if it does not exist."""
        with self._opened() as folder:
            for name in os.listdir(folder):  # noqa: PTH208  (of a descriptor)
                _remove(name, folder)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        folder = os.open(self._data, _FOLDER)
        try:
            for name in self._names:
                _make_folder(name, folder)
                inner = os.open(name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)


def _folder_name(machine: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", machine)[:100]
    if safe != machine:  # keep the names of different machines distinct
        safe += "." + sha256(os.fsencode(machine)).hexdigest()[:12]
    return safe


def _make_folder(name: str, parent: int) -> None:
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        os.mkdir(name, _OWNER_ONLY, dir_fd=parent)
        return
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=parent)
        os.mkdir(name, _OWNER_ONLY, dir_fd=parent)


def _remove(name: str, folder: int) -> None:
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        shutil.rmtree(name, dir_fd=folder)  # which follows no link either
    else:
        os.unlink(name, dir_fd=folder)
