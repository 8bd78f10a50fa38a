"""The temporary disk of a machine: a folder below the service's data folder.

The program may remove its folder or put a link in its place, so no link is followed. Programs of
one machine make and empty the folder at the same time.
"""

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FOLDER = {errno.ENOTDIR, errno.ELOOP}  # a file or a link
_OWNER_ONLY = 0o700
_ATTEMPTS = 100  # to make a folder that others remove

Caught = tuple[type[BaseException], BaseException, TracebackType]


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
                inner = _open_folder(name, folder)
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


def _open_folder(name: str, parent: int) -> int:
    """Open the folder; make it if it does not exist, or is something else."""
    for _ in range(_ATTEMPTS):
        try:
            return os.open(name, _FOLDER, dir_fd=parent)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(name, _OWNER_ONLY, dir_fd=parent)
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                raise
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=parent)
    raise FileNotFoundError(f"{name} is removed as often as it is made")


def _remove(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):  # another program of the machine removed it
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            shutil.rmtree(name, dir_fd=folder, onerror=_raise_unless_gone)  # follows no link
        else:
            os.unlink(name, dir_fd=folder)


def _raise_unless_gone(_call: object, _path: str, caught: Caught) -> None:
    if not isinstance(caught[1], FileNotFoundError):
        raise caught[1]
