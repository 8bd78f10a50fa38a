"""The SQLite database file and the files beside it: creation, permissions, and their loss."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from fairwarning.core.errors import Unavailable

_OWNER_ONLY = 0o600
_FOLDER_OWNER_ONLY = 0o700
LOG, RESERVED = "-wal", ".ballast"  # suffixes of the files beside the database
_STATEMENTS = 256  # prepared statements to cache; more than there are


class SqliteCursor(Protocol):
    """The part of `sqlite3.Cursor` that the store uses."""

    def fetchone(self) -> Any: ...  # noqa: ANN401  (each query knows what it selects)

    def fetchall(self) -> list[Any]: ...


class SqliteConnection(Protocol):
    """The part of `sqlite3.Connection` that the store uses, so that tests can use another library.

    Implementations raise the exceptions of `sqlite3`.
    """

    @property
    def total_changes(self) -> int: ...

    @property
    def in_transaction(self) -> bool: ...

    def execute(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ..., /
    ) -> SqliteCursor: ...

    def set_progress_handler(self, handler: Callable[[], bool], steps: int, /) -> None: ...

    def close(self) -> None: ...


def connect(path: Path) -> SqliteConnection:
    """Open a connection with explicit transactions that fails at once when the file is locked."""
    return sqlite3.connect(path, timeout=0, isolation_level=None, cached_statements=_STATEMENTS)


def create(path: Path) -> None:
    """Create the file and its folder if they are missing, accessible to their owner only.

    Do not even open an existing file: closing it would release this process's POSIX locks on it.
    SQLite decides whether it is a database.
    """
    if path.is_dir():
        raise Unavailable("NotAStore", f"{path} is a folder; name a file in it")
    try:
        _refuse_lost(path)
        if not path.parent.exists():
            path.parent.mkdir(mode=_FOLDER_OWNER_ONLY, parents=True)
            _sync(path.parent.parent)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY))
            _sync(path.parent)
    except OSError as error:
        raise Unavailable("StoreFailed", f"cannot create {path}: {error.strerror}") from error


def beside(path: Path, suffix: str) -> Path:
    """Return the path of a file that belongs to the database."""
    return path.with_name(path.name + suffix)


def _refuse_lost(path: Path) -> None:
    """Raise `Unavailable` if the database of an existing fleet is missing or empty.

    The files beside it are created later than the database.
    """
    left = [
        file.name
        for file in (beside(path, LOG), beside(path, RESERVED))
        if file.exists() and file.stat().st_size
    ]
    if left and not (path.exists() and path.stat().st_size):
        raise Unavailable(
            "StoreLost",
            f"{path} is missing or empty, but {' and '.join(left)} of a fleet is there; put the"
            " file back or restore a backup (to begin a new fleet, use another folder)",
        )


class OpenFiles:
    """Notices that another program removed, replaced or shortened the database or its log.

    Changes to a file without a name, or beyond a hole, would be lost with the process, so they must
    be refused (IB6).
    """

    def __init__(self, path: Path) -> None:
        self._path, self._log = str(path), str(beside(path, LOG))
        self._known: dict[str, _FileState] = {}  # by path

    def check(self) -> None:
        """Raise `Unavailable` if a file is not the one of before, or is shorter than it was left.

        SQLite itself shortens neither while it has them open.
        """
        self._check(self._path)
        self._check(self._log)

    def check_before_opening(self) -> None:
        """Do the same; the log of the last connection is not used any more."""
        self._known.pop(self._log, None)
        self._check(self._path)

    def remember(self) -> None:
        """Remember how long the files are after changes of this process."""
        for path in (self._path, self._log):
            state, known = _file_state(path), self._known.get(path)
            if state and (known is None or state.identity == known.identity):
                self._known[path] = state

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Check the files, and remember them after the changes made inside the context."""
        self.check()
        try:
            yield
        finally:
            self.remember()

    def _check(self, path: str) -> None:
        state = _file_state(path)
        if (known := self._known.get(path)) is None:
            if state:
                self._known[path] = state
        elif state is None or state.identity != known.identity:
            raise _lost(path)
        elif state.size < known.size:
            raise _shortened(path)


class _FileState(NamedTuple):
    identity: tuple[int, int]
    size: int


def _lost(path: str) -> Unavailable:
    return Unavailable(
        "StoreLost",
        f"{path} was moved, removed or replaced while the service uses it; put it back. Do not"
        " stop the service before that: it has the only copy",
    )


def _shortened(path: str) -> Unavailable:
    return Unavailable(
        "StoreLost",
        f"{path} was shortened by another program while the service uses it, and data is lost;"
        " stop the service and restore a backup",
    )


def _file_state(path: str) -> _FileState | None:
    try:
        status = os.stat(path)  # noqa: PTH116  (around each commit: half the time of a `Path`)
    except OSError:
        return None
    return _FileState((status.st_dev, status.st_ino), status.st_size)


def _sync(folder: Path) -> None:
    """Make the directory entries of a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class ReservedSpace:
    """A file that reserves disk space, deleted when the disk is full.

    Without it SQLite could not recover: to shorten its log it must first write to the database.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size

    def fill(self) -> bool:
        """Reserve the space; return whether there was enough of it."""
        try:
            if self._path.exists() and self._path.stat().st_size == self._size:
                return True
            handle = os.open(self._path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, _OWNER_ONLY)
            try:
                written = os.write(handle, bytes(self._size))
            finally:
                os.close(handle)
        except OSError:
            written = -1
        if written < self._size:
            self.free()
        return written == self._size

    def free(self) -> None:
        """Release the space."""
        with suppress(OSError):
            self._path.unlink()
