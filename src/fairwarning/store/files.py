"""The database file and the ballast beside it: how they come to be, and whom they belong to."""

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from fairwarning.core.errors import Unavailable

_OWNER_ONLY = 0o600
_FOLDER_OWNER_ONLY = 0o700
_STATEMENTS = 256  # prepared ones that are kept; more than there are


class SqliteCursor(Protocol):
    """What a statement yields."""

    def fetchone(self) -> Any: ...  # noqa: ANN401  (each query knows what it selects)

    def fetchall(self) -> list[Any]: ...


class SqliteConnection(Protocol):
    """As much of `sqlite3.Connection` as we use, so that a test can put another library under it.

    Its errors are those of `sqlite3` too.
    """

    @property
    def total_changes(self) -> int: ...

    @property
    def in_transaction(self) -> bool: ...

    def execute(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ..., /
    ) -> SqliteCursor: ...

    def close(self) -> None: ...


def connect(path: Path) -> SqliteConnection:
    """A connection that begins no transactions of its own and waits for nobody."""
    return sqlite3.connect(path, timeout=0, isolation_level=None, cached_statements=_STATEMENTS)


def make(path: Path) -> None:
    """Create what is missing of the file and its folder, for their owner only.

    A file that exists is not so much as opened: closing it would drop the locks that this process
    may have on it (POSIX), and SQLite itself knows best what is a database.
    """
    if path.is_dir():
        raise Unavailable("NotAStore", f"{path} is a folder; name a file in it")
    try:
        if not path.parent.exists():
            path.parent.mkdir(mode=_FOLDER_OWNER_ONLY, parents=True)
            _sync(path.parent.parent)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY))
            _sync(path.parent)
    except OSError as error:
        raise Unavailable("StoreFailed", f"cannot make {path}: {error.strerror}") from error


def _sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class ReservedSpace:
    """Space held in reserve, to be given up when the disk is full.

    SQLite cannot free itself then: to shorten its log it must first write to its file.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size

    def fill(self) -> bool:
        """Take the space again; whether there was enough of it."""
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
        """Give the space up."""
        with suppress(OSError):
            self._path.unlink()
