"""The embedded store: one SQLite file, one process, one connection on a dedicated thread.

A single connection with exclusive locking keeps other processes out. It also avoids the corruption
bug in SQLite's write-ahead log (3.7.0 to 3.51.2), which needs two connections, and a log that
readers keep from being shortened. So the reads lane has no connection of its own: it uses this one
while no other work waits, and a statement that takes long gives way (IB3).
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from fairwarning.core.errors import Conflict, FairwarningError, StoreDamaged, Unavailable
from fairwarning.core.model import KINDS, Entity, Impact, Ref
from fairwarning.store import codec, files, lanes, schema, tables
from fairwarning.store.files import OpenFiles, ReservedSpace, SqliteConnection
from fairwarning.store.scripts import Migration
from fairwarning.store.single_process import SingleProcessStore
from fairwarning.store.sql_reads import Row, SqlReads
from fairwarning.store.store import Batch, MachineLocation
from fairwarning.store.worker import StoreThread

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")

RESERVED_BYTES = 4 << 20  # more than the log, which exceeds a checkpoint by a batch or two

_SETTINGS = (
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA synchronous = FULL",  # durable when COMMIT returns
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -32768",  # KiB
    "PRAGMA wal_autocheckpoint = 0",  # the store does it, after the caller has its result
    "PRAGMA journal_size_limit = -1",  # a log that gets shorter was not shortened by SQLite
)
_LOG_PAGES = 512  # log size that triggers a checkpoint; estimated, as SQLite does not report it
_READ_STEPS = 20_000  # of SQLite's virtual machine, a millisecond: then look for other work
_BATCH_PAGES = 4  # pages a batch writes beyond one per row: indexes and the head


class SQLiteStore(SingleProcessStore, SqlReads):
    """Keeps a fleet in one SQLite file."""

    sqlite_version = sqlite3.sqlite_version

    def __init__(
        self,
        path: Path | str,
        *,
        reserved_bytes: int = RESERVED_BYTES,
        connect: Callable[[Path], SqliteConnection] = files.connect,
        migrations: list[Migration] | None = None,
    ) -> None:
        self.path = Path(path)
        self._connect = connect
        self._migrations = schema.migrations() if migrations is None else migrations
        self._reserved = ReservedSpace(files.beside(self.path, files.RESERVED), reserved_bytes)
        self._files = OpenFiles(self.path)
        self._worker: StoreThread | None = None
        # The members below belong to the thread.
        self._connection: SqliteConnection | None = None
        self._head: tables.Head = (0, 0, 0)
        self._checkpointed = 0  # the connection's change count at the last checkpoint
        self._full = False  # the reserved space was released and could not be taken back yet
        self._unclear = False  # a commit that failed may be in the log, and perhaps not durable

    # --- The thread -------------------------------------------------------------------------------

    async def open(self) -> None:
        if self._worker is not None:
            return
        self._worker = StoreThread("store")
        try:
            await self._worker.run(self._open)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._worker is not None:
            worker, self._worker = self._worker, None
            await worker.stop(self._drop)

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
        thread = self._thread()
        job = self._job(query, *args, **kwargs)
        return await (thread.read if lanes.is_reading() else thread.run)(job)

    async def _change(self, change: Callable[[SqliteConnection, V], T], value: V) -> T:
        def checked(connection: SqliteConnection) -> T:
            with self._files.changing():
                return change(connection, value)

        return await self._thread().run(self._job(checked), self._shorten_log)

    def _job(
        self,
        use: Callable[Concatenate[SqliteConnection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Callable[[], T]:
        def job() -> T:
            try:
                return use(self._connected(), *args, **kwargs)
            except sqlite3.Error as error:
                raise self._translate_error(error) from error
            finally:
                self._roll_back()  # unless it has ended its transaction

        return job

    async def _rows(self, query: str, **values: object) -> list[Row]:
        return await self._read(tables.select, query, values)

    # --- The connection ---------------------------------------------------------------------------

    def _open(self) -> None:
        files.create(self.path)
        self._files = OpenFiles(self.path)
        self._connected()
        self._full = not self._reserved.fill()

    def _connected(self) -> SqliteConnection:
        """Return the connection; open a new one if the last was dropped."""
        if self._connection is None:
            try:
                self._connection = self._new_connection()
            except sqlite3.Error as error:
                raise self._translate_error(error) from error
        return self._connection

    def _new_connection(self) -> SqliteConnection:
        self._files.check_before_opening()  # SQLite would create what is missing
        connection = self._connect(self.path)
        try:
            self._prepare(connection)
        except BaseException:
            with suppress(sqlite3.Error):
                connection.close()
            raise
        self._files.remember()
        return connection

    def _prepare(self, connection: SqliteConnection) -> None:
        """Take the lock and verify that the database is ours before changing it."""
        for setting in _SETTINGS:
            connection.execute(setting)
        connection.execute("BEGIN EXCLUSIVE")
        schema.migrate(connection, self._migrations)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
        self._make_durable(connection)
        connection.set_progress_handler(self._thread().read_gives_way, _READ_STEPS)
        self._head = tables.head(connection)
        self._checkpointed = 0

    def _make_durable(self, connection: SqliteConnection) -> None:
        """Sync what is in the log before it is read: who wrote it may have been killed before."""
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:  # a full disk is met when the log has been synced
            if self._unclear or not _is_full(error):
                raise
        self._unclear = False

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _translate_error(self, error: sqlite3.Error) -> FairwarningError:
        """Return the error to raise for an SQLite error."""
        match _code(error):
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return Unavailable(
                    "StoreInUse",
                    f"another process uses {self.path}; stop it, or name another file",
                )
            case sqlite3.SQLITE_NOTADB:
                return Unavailable("NotAStore", f"{self.path} is not a database; name another file")
            case sqlite3.SQLITE_CORRUPT:
                return StoreDamaged(
                    "StoreCorrupt", f"{self.path} is damaged ({error}); restore a copy of it"
                )
            case sqlite3.SQLITE_FULL:
                return self._no_space()
            case sqlite3.SQLITE_INTERRUPT:
                return Unavailable("StoreBusy", "the read took too long and gave way; try again")
        return Unavailable("StoreFailed", f"{self.path}: {error}; try again")

    def _no_space(self) -> Unavailable:
        return Unavailable("StoreFull", f"no space left for {self.path}; free some space to resume")

    # --- Writing ----------------------------------------------------------------------------------

    async def commit(self, batch: Batch) -> float | None:
        return await self._thread().run(lambda: self._commit(batch), self._shorten_log)

    def _commit(self, batch: Batch) -> float | None:
        self._connected()
        with self._files.changing():
            return self._commit_checked(batch)

    def _commit_checked(self, batch: Batch) -> float | None:
        if self._full and not self._reserved.fill():
            raise self._no_space()
        self._full = False
        try:
            rows = tables.SqliteRows(batch, self._head)
            return self._attempt(rows)
        except UnicodeEncodeError as error:
            raise Conflict("BadText", "string contains an unpaired surrogate") from error
        except sqlite3.Error as error:
            if not _is_full(error):
                return self._resolve_failed_commit(rows, error)
        return self._retry_on_full_disk(rows)

    def _attempt(self, rows: tables.SqliteRows) -> float | None:
        """Write the batch in one transaction; after an error no transaction is left open."""
        connection = self._connected()
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
        """Checkpoint the log if it is long, while the next batch is being decided."""
        connection = self._connection
        self._checkpointed -= _BATCH_PAGES
        if connection is not None and connection.total_changes - self._checkpointed > _LOG_PAGES:
            self._checkpointed = connection.total_changes
            # After an error the log stays; a commit reports the error if it matters.
            with suppress(sqlite3.Error, Unavailable), self._files.changing():
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _roll_back(self) -> None:
        connection = self._connection
        try:
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop()

    def _retry_on_full_disk(self, rows: tables.SqliteRows) -> float | None:
        """Retry on a full disk after releasing the reserved space, to finish the current batch."""
        self._reserved.free()
        self._full = True
        with suppress(sqlite3.Error):
            self._connected().execute("PRAGMA wal_checkpoint(PASSIVE)")
        try:
            return self._attempt(rows)
        except sqlite3.Error as error:
            if not _is_full(error):
                return self._resolve_failed_commit(rows, error)
            # If there is room for the reserved space, the disk is not full.
            self._full = _code(error) == sqlite3.SQLITE_FULL or not self._reserved.fill()
            raise (self._no_space() if self._full else self._translate_error(error)) from error

    def _resolve_failed_commit(self, rows: tables.SqliteRows, error: sqlite3.Error) -> float | None:
        """Find out whether a failed commit took effect: its last log frame may have been synced.

        A new connection shows the outcome, once a checkpoint into the database file has made it
        final. If that fails too, the outcome is shown by the first connection that succeeds.
        """
        self._drop()
        self._unclear = True
        try:
            connection = self._connected()
            if self._head == rows.head:
                return tables.next_due(connection)
        except (Unavailable, sqlite3.Error) as again:
            text = f"{self.path} failed during the commit; the command may have taken effect"
            raise Unavailable("StoreUnclear", f"{text}, so check before you retry") from again
        raise self._translate_error(error) from error

    # --- Reading ----------------------------------------------------------------------------------

    async def load(self, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        return await self._read(tables.load, list(refs))

    async def due_entities(self, now: float, limit: int) -> list[Ref]:
        rows = await self._rows("due_entities", now=now, limit=limit)
        return [(KINDS[kind], name) for kind, name in rows]

    async def unfinished_impacts(self, after: str, limit: int) -> list[Impact]:
        rows = await self._rows("unfinished_impacts", after=after, limit=limit)
        return [codec.decode_impact(body) for (body,) in rows]

    async def locate_machines(self, keys: Sequence[int | str]) -> dict[int | str, MachineLocation]:
        rows = await self._read(tables.machines_at, keys)
        return {key: self._location(*row) for key, row in rows.items()}

    async def record_polls(self, polls: Mapping[str, float]) -> None:
        await self._change(tables.record_polls, polls)

    async def recorded_polls(self, scopes: Iterable[str]) -> dict[str, float]:
        return await self._read(tables.recorded_polls, list(scopes))

    async def add_note_if_absent(self, name: str, value: str) -> str:
        await self._change(tables.add_note_if_absent, (name, value))
        return str((await self._rows("get_note", name=name))[0][0])

    # --- Retention --------------------------------------------------------------------------------

    async def drop_old_lines(self, before: float) -> int:
        return await self._change(tables.drop_old_lines, before)

    async def drop_tombstones(self, until: int) -> int:
        return await self._change(tables.drop_tombstones, until)

    async def drop_notes(self, notes: Mapping[str, str]) -> None:
        await self._change(tables.drop_notes, notes)


def _code(error: sqlite3.Error) -> int:
    """Return the primary error code; 0 for errors that Python itself raises."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_full(error: sqlite3.Error) -> bool:
    """Return whether the disk is full; an exceeded quota is reported as a failed write."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}
