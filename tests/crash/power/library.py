"""SQLite through apsw, whose files a test can watch and break, with the interface of `sqlite3`."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw


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
