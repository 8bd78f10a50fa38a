"""Connections to the database: made when needed, kept for the next, dropped when they fail."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fairwarning.core.errors import Conflict, FairwarningError, Refused, Unavailable

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

SCHEMA = "fairwarning"
ANSWER_SECONDS = 5.0  # a database that does not answer by then is away

_DEFAULTS = {
    "application_name": "fairwarning",
    "connect_timeout": "3",  # of each host
    "target_session_attrs": "read-write",  # of several hosts, the one that is the primary
    "keepalives_idle": "2",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    "tcp_user_timeout": "5000",
}
# Everything is looked up by key: what a command costs must not depend on what statistics make of
# the fleet's size (X4).
# A commit that was acknowledged is on disk, and with a synchronous standby on its disk too (IK2).
# No lock outlives a process that was stopped in the middle of something.
_SETTINGS = f"""
SELECT
    set_config('search_path', '{SCHEMA}', false),
    set_config('jit', 'off', false),
    set_config('enable_seqscan', 'off', false),
    set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    set_config('statement_timeout', '{ANSWER_SECONDS:g}s', false),
    set_config('idle_in_transaction_session_timeout', '{ANSWER_SECONDS:g}s', false),
    CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
        THEN set_config('synchronous_commit', 'on', false) END
"""


class ConnectionPool:
    """At most so many at once; whoever comes then waits for one."""

    def __init__(self, url: str, most: int) -> None:
        self._info = _with_defaults(url)
        self._room = asyncio.Semaphore(most)
        self._idle: list[Connection] = []
        self._used: set[Connection] = set()
        self._closed = True
        self._away = False

    def open(self) -> None:
        """Give connections out."""
        self._closed = self._away = False

    async def close(self) -> None:
        """Hang up, and give none out any more."""
        self._closed = True
        await self._hang_up()

    def gone(self) -> None:
        """Whoever listens knows that the database is away: nobody else need wait to find out."""
        self._away = True
        for connection in self._used:
            cut(connection)

    async def back(self) -> None:
        """The database is there again, maybe another: begin anew with it."""
        await self._hang_up()
        self._away = False

    async def _hang_up(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def connect(self) -> Connection:
        """A new one, for the caller alone."""
        connection = None
        try:
            connection = await psycopg.AsyncConnection.connect(
                self._info, autocommit=True, prepare_threshold=1
            )
            with limited(connection):
                await connection.execute(_SETTINGS)
        except psycopg.Error as error:
            if connection is not None:
                await connection.close()
            raise translated(error) from error
        return connection

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Connection]:
        """One of them, for a few statements."""
        if self._closed:
            raise Unavailable("StoreClosed", "the store is closed; open it first")
        async with self._room:
            if self._away:
                raise Unavailable("StoreAway", "the database cannot be reached; try again")
            connection = self._idle.pop() if self._idle else await self.connect()
            self._used.add(connection)
            try:
                with limited(connection):
                    yield connection
            except psycopg.Error as error:
                await self._put_back(connection)
                raise translated(error) from error
            except asyncio.CancelledError:
                await connection.close()
                raise
            except BaseException:
                await self._put_back(connection)
                raise
            else:
                await self._put_back(connection)
            finally:
                self._used.discard(connection)

    async def _put_back(self, connection: Connection) -> None:
        self._used.discard(connection)
        if self._closed or self._away or connection.closed:
            await connection.close()
        else:
            self._idle.append(connection)


def _with_defaults(url: str) -> str:
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise Refused("BadDatabase", f"this is not a postgresql:// URL: {error}") from error
    defaults = {key: _DEFAULTS[key] for key in _DEFAULTS if key not in given}
    # Else psycopg returns bytes for text, where the database was made in the locale C.
    return make_conninfo(url, **defaults, client_encoding="UTF8")


@contextmanager
def limited(connection: Connection, seconds: float = ANSWER_SECONDS + 1) -> Iterator[None]:
    """Cut the line when there is no answer in time: to cancel a statement would need one too."""
    timer = asyncio.get_running_loop().call_later(seconds, cut, connection)
    try:
        yield
    finally:
        timer.cancel()


def cut(connection: Connection) -> None:
    """Whoever waits for an answer on this connection learns that none will come."""
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)


def translated(error: psycopg.Error) -> FairwarningError:
    """What went wrong, in words that help; never with where the database is (IS3)."""
    if isinstance(error, psycopg.DataError):
        return Conflict("BadText", "a text holds what the database cannot keep; send it without")
    if isinstance(error, psycopg.errors.DiskFull):
        return Unavailable("StoreFull", "no space left for the database; free some, and it goes on")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return Unavailable("StoreDenied", f"the database refuses us: {_words(error)}")
    return Unavailable("StoreFailed", f"the database failed: {_words(error)}; try again")


def _words(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error) or type(error).__name__).partition("\n")[0]
