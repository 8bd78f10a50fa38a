"""Commits batches, and finds out what became of a commit whose connection was lost.

A commit first adds a row for its batch. After a lost connection this process tries to add the same
row as abandoned: this waits for a commit in progress. If the row exists, the commit took place. If
not, the new row prevents it for ever, also if the database has not read it yet. So a batch that was
reported as failed never lands later.
"""

import asyncio
import uuid
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

import psycopg

from fairwarning.core.errors import Unavailable
from fairwarning.core.model import KINDS
from fairwarning.store.differences import stale_version
from fairwarning.store.elapsed_time import elapsed_time
from fairwarning.store.postgres.connections import (
    RESPONSE_SECONDS,
    Connection,
    ConnectionPool,
    server_changed,
    translate_error,
)
from fairwarning.store.postgres.rows import PostgresRows, Values
from fairwarning.store.postgres.statements import execute, run
from fairwarning.store.sql_reads import Row

_UNCLEAR_SECONDS = 1.0  # how long to try to reach the database after a lost connection
_RETRY_SECONDS = 0.05
_KEPT_SECONDS = 24 * 3600.0  # after which rows of batches are dropped
_USUAL_BYTES = 2**22  # of a batch, at most
_BYTES_PER_SECOND = 2**18  # that the slowest database writes
_STALE = "FW001"
_ADDRESS = "machine_address"  # the name of the index
# Numbers that do not follow those of the last commit, or are in use; a wait that might not end.
_REPEATED = ("FW002", "23505", "55P03", "40P01")


class AddressInUseError(Exception):
    """Another machine has the address of a machine in the batch."""


class Committed(NamedTuple):
    """A committed batch."""

    base: int | None  # the position before its first entity; None if that is not known
    next_due: float | None


class BatchWriter:
    """Commits the batches of one process."""

    def __init__(self, connections: ConnectionPool) -> None:
        self.process = ""
        self.server = ""
        """The server whose content the batches are based on; another one takes no batch."""
        self.finished: list[str] = []
        """Acknowledged batches whose rows can be dropped."""
        self._unclear: list[str] = []  # batches that may still land
        self._connections = connections

    async def commit(self, batch_rows: PostgresRows) -> Committed:
        """Commit a batch. It raises `StoreUnclear` if the outcome cannot be determined.

        The commit drops the rows of earlier batches, so that rows do not accumulate.
        """
        name = str(uuid.uuid4())
        values = batch_rows.encode()
        dropped, self.finished = self.finished, []
        values |= {"batch": name, "finished": "{" + ",".join(dropped) + "}"}
        try:
            committed = await self._commit(name, values)
        except BaseException:
            self.finished += dropped
            raise
        self.finished.append(name)
        return committed

    async def _commit(self, name: str, values: Values) -> Committed:
        sent_at = elapsed_time()
        async with self._connections.acquire(_limit_seconds(values)) as connection:
            if self.server and connection.server != self.server:
                raise server_changed()
            try:
                return await self._write(connection, values)
            except psycopg.Error as error:
                if _is_rolled_back(error, connection):
                    _raise_conflict(error)
                    raise
                await connection.close()
                lost = translate_error(error)
        abandoned, due = await self._abandon(name, sent_at)
        if not abandoned:
            return Committed(None, due)
        with suppress(Unavailable):
            await self.remove_old()
        raise lost

    async def _write(self, connection: Connection, values: Values) -> Committed:
        """Commit beside the other processes; if that fails because of them, alone."""
        try:
            return await self._call(connection, values, alone=False)
        except psycopg.Error as error:
            if not (_is_about_others(error) and _is_rolled_back(error, connection)):
                raise
        return await self._call(connection, values, alone=True)

    async def _call(self, connection: Connection, values: Values, *, alone: bool) -> Committed:
        ((base, due),) = await execute(
            connection, "write_batch", process=self.process, alone=alone, **values
        )
        return Committed(base, due)

    async def _abandon(self, name: str, sent_at: float) -> Row:
        """Prevent the commit unless it took place; return whether, and the next due time."""
        deadline = monotonic() + _UNCLEAR_SECONDS
        cause: Unavailable | None = None
        # If this process was suspended for long, the row may have been dropped.
        while elapsed_time() - sent_at < _KEPT_SECONDS / 2:
            try:
                return (await self._run("abandon_batch", batch=name))[0]
            except Unavailable as error:
                cause = error
                if monotonic() > deadline:
                    break
                await asyncio.sleep(_RETRY_SECONDS)
        self._unclear.append(name)
        text = "the database connection was lost during the commit; the command may have taken"
        raise Unavailable("StoreUnclear", f"{text} effect, so check before you retry") from cause

    async def abandon_unclear(self) -> None:
        """Let no batch land from now on whose outcome was reported as unclear."""
        while self._unclear:
            await self._run("abandon_batch", batch=self._unclear[0])
            self._unclear.pop(0)

    async def remove_old(self) -> None:
        """Drop old rows: of batches that were abandoned, and of processes that were killed."""
        await self._run("remove_old_batches", age=_KEPT_SECONDS)

    async def _run(self, query: str, **values: object) -> list[Row]:
        return await run(self._connections, query, process=self.process, **values)


def _limit_seconds(values: Values) -> float:
    """How long a commit may take: a single command may write any number of rows."""
    size = sum(len(value) for value in values.values() if isinstance(value, str))
    return RESPONSE_SECONDS + max(0, size - _USUAL_BYTES) / _BYTES_PER_SECOND


def _is_rolled_back(error: psycopg.Error, connection: Connection) -> bool:
    """Whether the database itself has reported the failure and the connection is still open."""
    return error.diag.severity_nonlocalized == "ERROR" and not connection.closed


def _is_about_others(error: psycopg.Error) -> bool:
    """Whether a commit failed because of others that were at work at the same time."""
    return error.sqlstate in _REPEATED and error.diag.constraint_name != _ADDRESS


def _raise_conflict(error: psycopg.Error) -> None:
    if error.diag.constraint_name == _ADDRESS:
        raise AddressInUseError from error
    if error.sqlstate == _STALE:
        kind, _, name = str(error.diag.message_primary).partition(" ")
        raise stale_version((KINDS[kind], name)) from error
