"""The embedded store: one SQLite file, one process, one connection on a thread of its own.

One connection with exclusive locking keeps other processes out, and keeps the corruption bug of
SQLite's write-ahead log (3.7.0 to 3.51.2; it takes two connections) out of reach.
"""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from fairwarning.core.errors import Conflict, FairwarningError, InvariantViolated, Unavailable
from fairwarning.core.model import Entity, Impact, Ref
from fairwarning.store import files, schema, tables
from fairwarning.store.files import ReservedSpace, SqliteConnection
from fairwarning.store.scripts import Migration
from fairwarning.store.store import Batch, JournalEntry, MachineLocation, ScopeChange
from fairwarning.store.worker import StoreThread

P = ParamSpec("P")
T = TypeVar("T")

BALLAST_BYTES = 4 << 20  # more than the log, which is a batch or two beyond its checkpoint

_SETTINGS = (
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA synchronous = FULL",  # durable when COMMIT returns
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -32768",  # KiB
    "PRAGMA wal_autocheckpoint = 0",  # done by us, when the caller has its answer
)
_LOG_PAGES = 512  # in the log before it is shortened; estimated, as SQLite does not tell
_BATCH_PAGES = 4  # that a batch writes beside a page for each row: indexes, the head


class SQLiteStore:
    """Keeps a fleet in one file."""

    shared = None
    sqlite_version = sqlite3.sqlite_version

    def __init__(
        self,
        path: Path | str,
        *,
        ballast_bytes: int = BALLAST_BYTES,
        connect: Callable[[Path], SqliteConnection] = files.connect,
        migrations: list[Migration] | None = None,
    ) -> None:
        self.path = Path(path)
        self._connect = connect
        self._migrations = schema.migrations() if migrations is None else migrations
        self._ballast = ReservedSpace(
            self.path.with_name(self.path.name + ".ballast"), ballast_bytes
        )
        self._worker: StoreThread | None = None
        # What follows belongs to the thread.
        self._connection: SqliteConnection | None = None
        self._head: tables.Head = (0, 0, 0)
        self._moved = 0  # of the connection's changes; the rest is in the log
        self._full = False  # the ballast was given up, and could not be taken again yet

    # --- The thread -------------------------------------------------------------------------------

    async def open(self) -> None:
        if self._worker is not None:
            return
        self._worker = StoreThread("store")
        try:
            await self._worker.do(self._open)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._worker is not None:
            worker, self._worker = self._worker, None
            await worker.do(self._drop)
            await worker.stop()

    def _thread(self) -> StoreThread:
        if self._worker is None:
            raise Unavailable("StoreClosed", "the store is closed; open it first")
        return self._worker

    async def _read(
        self,
        query: Callable[Concatenate[SqliteConnection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        def job() -> T:
            try:
                return query(self._ready(), *args, **kwargs)
            except sqlite3.Error as error:
                raise self._failed(error) from error

        return await self._thread().do(job)

    # --- The connection ---------------------------------------------------------------------------

    def _open(self) -> None:
        files.make(self.path)
        self._ready()
        self._full = not self._ballast.fill()

    def _ready(self) -> SqliteConnection:
        """The connection; a new one if the last had to be dropped."""
        if self._connection is None:
            try:
                self._connection = self._new_connection()
            except sqlite3.Error as error:
                raise self._failed(error) from error
        return self._connection

    def _new_connection(self) -> SqliteConnection:
        connection = self._connect(self.path)
        try:
            self._prepare(connection)
        except BaseException:
            with suppress(sqlite3.Error):
                connection.close()
            raise
        return connection

    def _prepare(self, connection: SqliteConnection) -> None:
        """Take the lock, look whether the database is ours, and only then touch it."""
        for setting in _SETTINGS:
            connection.execute(setting)
        connection.execute("BEGIN EXCLUSIVE")
        schema.migrate(connection, self._migrations)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
        self._head = tables.head(connection)
        self._moved = 0

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _failed(self, error: sqlite3.Error) -> FairwarningError:
        """What went wrong, in words that help."""
        match _code(error):
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return Unavailable(
                    "StoreInUse",
                    f"another process uses {self.path}; stop it, or name another file",
                )
            case sqlite3.SQLITE_NOTADB:
                return Unavailable("NotAStore", f"{self.path} is not a database; name another file")
            case sqlite3.SQLITE_CORRUPT:
                return InvariantViolated(
                    "StoreCorrupt", f"{self.path} is damaged ({error}); restore a copy of it"
                )
            case sqlite3.SQLITE_FULL:
                return self._no_space()
        return Unavailable("StoreFailed", f"{self.path}: {error}; try again")

    def _no_space(self) -> Unavailable:
        return Unavailable("StoreFull", f"no space left for {self.path}; free some, and it goes on")

    # --- Writing ----------------------------------------------------------------------------------

    async def commit(self, batch: Batch) -> float | None:
        return await self._thread().do(lambda: self._commit(batch), self._shorten_log)

    def _commit(self, batch: Batch) -> float | None:
        self._ready()
        if self._full and not self._ballast.fill():
            raise self._no_space()
        self._full = False
        try:
            rows = tables.SqliteRows(batch, self._head)
            return self._attempt(rows)
        except UnicodeEncodeError as error:
            raise Conflict("BadText", "a text holds half a character; send it whole") from error
        except sqlite3.Error as error:
            if not _is_full(error):
                return self._clear_up(rows, error)
        return self._last_attempt(rows)

    def _attempt(self, rows: tables.SqliteRows) -> float | None:
        """One transaction: all of the batch, or nothing of it and no transaction left open."""
        connection = self._ready()
        try:
            connection.execute("BEGIN IMMEDIATE")
            due = tables.write(connection, rows)
            connection.execute("COMMIT")
        except tables.VersionConflict:
            self._roll_back()
            raise tables.explain(connection, rows) from None
        except BaseException:
            self._roll_back()
            raise
        self._head = rows.head
        return due

    def _shorten_log(self) -> None:
        """Move what is in the log to its place, while the next batch is being decided."""
        connection = self._connection
        self._moved -= _BATCH_PAGES
        if connection is not None and connection.total_changes - self._moved > _LOG_PAGES:
            self._moved = connection.total_changes
            with suppress(sqlite3.Error):  # the log stays; the next commit that minds will tell
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _roll_back(self) -> None:
        connection = self._connection
        try:
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop()

    def _last_attempt(self, rows: tables.SqliteRows) -> float | None:
        """The disk is full: with the ballast given up, what is in flight can be finished."""
        self._ballast.free()
        self._full = True
        with suppress(sqlite3.Error):
            self._ready().execute("PRAGMA wal_checkpoint(PASSIVE)")
        try:
            return self._attempt(rows)
        except sqlite3.Error as error:
            if not _is_full(error):
                return self._clear_up(rows, error)
            # Where there is room for the ballast it is not space that is missing.
            self._full = _code(error) == sqlite3.SQLITE_FULL or not self._ballast.fill()
            raise (self._no_space() if self._full else self._failed(error)) from error

    def _clear_up(self, rows: tables.SqliteRows, error: sqlite3.Error) -> float | None:
        """A commit failed in an unclear way: its last frame may be in the log, synced or not.

        What a new connection finds is what counts, once it is in the database file itself. (Only
        where that last step fails too, a batch may be there that is said to be refused.)
        """
        self._drop()
        connection = self._ready()
        if self._head != rows.head:
            raise self._failed(error) from error
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return tables.next_due(connection)
        except sqlite3.Error as again:
            raise self._failed(again) from again

    # --- Reading ----------------------------------------------------------------------------------

    async def load(self, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        return await self._read(tables.load, list(refs))

    async def due_entities(self, now: float, limit: int) -> list[Ref]:
        return await self._read(tables.due, now, limit)

    async def next_due(self) -> float | None:
        return await self._read(tables.next_due)

    async def find_machines(
        self, *, name: str = "", address: str = "", number: int = 0, scope: str = ""
    ) -> list[MachineLocation]:
        return await self._read(tables.find, name, address, number, scope)

    async def list_machines(self, after: int, limit: int) -> list[MachineLocation]:
        return await self._read(tables.places, after, limit)

    async def list_ids(self, kind: type[Entity], after: str, limit: int) -> list[str]:
        return await self._read(tables.names, kind, after, limit)

    async def scopes_with_events(self, after: str, limit: int) -> list[str]:
        return await self._read(tables.busy, after, limit)

    async def unfinished_impacts(self, after: str, limit: int) -> list[Impact]:
        return await self._read(tables.unfinished, after, limit)

    async def changes_since(self, after: int, limit: int) -> list[ScopeChange]:
        return await self._read(tables.changed, after, limit)

    async def journal(
        self, *, after: int = 0, limit: int = 1000, entity: Ref | None = None, event: str = ""
    ) -> list[JournalEntry]:
        return await self._read(tables.journal, after, limit, entity, event)

    async def operation_lines(
        self, operation: str, *, after: int, before: int, limit: int
    ) -> list[JournalEntry]:
        return await self._read(tables.lines_of_operation, operation, after, before, limit)

    async def latest_lines(
        self, limit: int, *, before: int | None = None, entity: Ref | None = None
    ) -> list[JournalEntry]:
        return await self._read(tables.latest, limit, before, entity)

    async def drop_old_lines(self, before: float) -> int:
        return await self._thread().do(lambda: self._forget(before), self._shorten_log)

    def _forget(self, before: float) -> int:
        try:
            return tables.forget(self._ready(), before)
        except sqlite3.Error as error:
            self._roll_back()
            raise self._failed(error) from error

    async def get_note(self, name: str) -> str | None:
        return await self._read(tables.note, name)

    async def add_note_if_absent(self, name: str, value: str) -> str:
        return await self._read(tables.keep_first, name, value)

    async def claim_duty(self, duty: str) -> bool:  # noqa: ARG002  (there is nobody else)
        return True


def _code(error: sqlite3.Error) -> int:
    """The primary code; what Python itself raises has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_full(error: sqlite3.Error) -> bool:
    """No space. A quota shows as a failed write."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}
