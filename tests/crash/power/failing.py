"""SQLite through apsw, whose files a test can break: a broken disk, a full filesystem."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

KINDS = ("EIO", "ENOSPC", "short write")
_CODES = {
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "read": apsw.SQLITE_IOERR_READ,
}


@dataclass
class Failure:
    """Which uses of the files fail: `count` of them, from the n-th on; none if n is 0."""

    kind: str = "EIO"
    nth: int = 0
    count: int = 1
    used: int = 0
    off: bool = False

    def should_fail(self, what: str) -> bool:
        """Count a use, and return whether it must fail."""
        if self.off or (self.kind != "EIO" and what != "write"):
            return False  # only writes need space
        self.used += 1
        return 0 < self.nth <= self.used < self.nth + self.count

    def error(self, what: str) -> Exception:
        full = self.kind != "EIO"
        error: Any = (apsw.FullError if full else apsw.IOError)("planned")
        error.extendedresult = apsw.SQLITE_FULL if full else _CODES[what]
        return error  # type: ignore[no-any-return]


class FailingVFS(apsw.VFS):
    """The default VFS, with failures."""

    def __init__(self, name: str, failure: Failure) -> None:
        super().__init__(name, "unix")
        self.name = name
        self._failure = failure

    def xOpen(self, name: Any, flags: list[int]) -> "FailingFile":  # noqa: ANN401, N802
        return FailingFile(self._failure, name, flags)


class FailingFile(apsw.VFSFile):
    def __init__(self, failure: Failure, name: Any, flags: list[int]) -> None:  # noqa: ANN401
        super().__init__("unix", name, flags)
        self._failure = failure

    def _use(self, what: str) -> None:
        if self._failure.should_fail(what):
            raise self._failure.error(what)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._use("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        if self._failure.should_fail("write"):
            if self._failure.kind == "short write":
                super().xWrite(data[: len(data) // 2], offset)
            raise self._failure.error("write")
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._use("truncate")
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._use("sync")
        super().xSync(flags)


# --- With the interface of `sqlite3` --------------------------------------------------------------


class Adapter:
    """An apsw connection as a store uses it; it raises the errors of `sqlite3`."""

    def __init__(self, path: Path, vfs: str) -> None:
        self._inner = _translate_errors(apsw.Connection, str(path), vfs=vfs)

    @property
    def total_changes(self) -> int:
        return int(self._inner.total_changes())

    @property
    def in_transaction(self) -> bool:
        return bool(self._inner.in_transaction)

    def execute(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /
    ) -> "AdaptedCursor":
        return AdaptedCursor(_translate_errors(self._inner.execute, sql, parameters))

    def set_progress_handler(self, handler: Callable[[], bool], steps: int, /) -> None:
        self._inner.set_progress_handler(handler, steps)

    def close(self) -> None:
        _translate_errors(self._inner.close)


class AdaptedCursor:
    def __init__(self, inner: apsw.Cursor) -> None:
        self._inner = inner

    def fetchone(self) -> Any:  # noqa: ANN401
        return _translate_errors(self._inner.fetchone)

    def fetchall(self) -> list[Any]:
        return list(_translate_errors(self._inner.fetchall))


def _translate_errors(call: Callable[..., Any], *args: object, **kwargs: object) -> Any:  # noqa: ANN401
    try:
        return call(*args, **kwargs)
    except apsw.Error as error:
        kind = (
            sqlite3.IntegrityError
            if isinstance(error, apsw.ConstraintError)
            else sqlite3.OperationalError
        )
        translated = kind(str(error))
        translated.sqlite_errorcode = getattr(error, "extendedresult", 0)
        raise translated from error
