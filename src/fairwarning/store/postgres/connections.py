"""A pool of database connections: opened on demand, reused, and dropped when they fail."""

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fairwarning.core.errors import Conflict, FairwarningError, Refused, Unavailable
from fairwarning.store import lanes
from fairwarning.store.postgres.failures import BAD_URL, LOST, connection_failure


class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection, and the server that it was opened to."""

    server = ""
    """When the server was started, and its timeline: another server has another value."""
    reusable = True
    """Whether it has the settings of all others."""

    async def wait(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401  (of psycopg)
        """Wait for a statement; a task that is cancelled meanwhile ends as cancelled.

        When cancelled, psycopg waits for the end of the statement, and raises what then fails: the
        task would not end if it retries after a lost connection.
        """
        task = asyncio.current_task()
        requests = task.cancelling() if task else 0
        try:
            return await super().wait(*arguments, **options)
        except psycopg.Error as error:
            if task and task.cancelling() > requests:
                raise asyncio.CancelledError from error
            raise


SCHEMA = "fairwarning"
RESPONSE_SECONDS = 5.0  # after which a database that does not respond counts as unreachable
_LATE_SECONDS = 0.1  # by which a timer is late if this process was busy or suspended

_DEFAULTS = {
    "application_name": "fairwarning",
    "connect_timeout": "3",  # for each host
    "target_session_attrs": "read-write",  # connect to the primary if several hosts are given
    "keepalives_idle": "2",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    "tcp_user_timeout": "5000",
}
# Planner: every query is a lookup by key, so that the cost of a command does not depend on what
# statistics say about the size of the fleet (X4).
# Durability: an acknowledged commit is on disk, also on that of a synchronous standby (IK2).
# Timeouts: no lock outlives a process that was suspended in the middle of a transaction.
# Isolation: a commit sees what the one before it has written.
# Digits: a time is read as it was written.
# They are set in the session: a pooler refuses settings in the start-up message.
_SETTINGS = """
SELECT
    set_config('search_path', %(schema)s, false),
    set_config('jit', 'off', false),
    set_config('enable_seqscan', 'off', false),
    set_config('enable_bitmapscan', 'off', false),
    set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('extra_float_digits', '1', false),
    set_config('lock_timeout', '0', false),
    set_config('statement_timeout', %(limit)s, false),
    set_config('idle_in_transaction_session_timeout', %(limit)s, false),
    CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
        THEN set_config('synchronous_commit', 'on', false) END,
    extract(epoch FROM pg_postmaster_start_time()) || ' ' || CASE
        WHEN pg_is_in_recovery() THEN 'standby'
        ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END
"""
_STATEMENT_TIMEOUT = "SELECT set_config('statement_timeout', %s, false)"
_VALUES = {"schema": SCHEMA, "limit": f"{RESPONSE_SECONDS:g}s"}


class _Slots(asyncio.Semaphore):
    """Fails if no connection becomes free in the time that a statement may take."""

    seconds = RESPONSE_SECONDS + 1

    async def __aenter__(self) -> None:
        if not self.locked():
            await self.acquire()
            return
        try:
            async with asyncio.timeout(self.seconds):
                await self.acquire()
        except TimeoutError:
            text = "all database connections of this process are busy; try again"
            raise Unavailable("StoreBusy", text) from None


class ConnectionPool:
    """A limited number of connections for each lane; callers beyond it wait for a while."""

    def __init__(self, url: str, size: int, reads: int = 1) -> None:
        self._conninfo = _with_defaults(url)
        self._slots = _Slots(size)
        self._read_slots = _Slots(reads)
        self._idle: list[Connection] = []
        self._used: set[Connection] = set()
        self._listener: Connection | None = None
        self._server = ""  # the only one to which connections are handed out
        self._closed = True
        self._unreachable = False

    def open(self) -> None:
        """Start handing out connections."""
        self._closed = self._unreachable = False

    async def close(self) -> None:
        """Close idle connections and hand out no more."""
        self._closed = True
        await self._close_idle()

    def mark_unreachable(self) -> None:
        """Fail all users at once, until the listener has found that the database is reachable."""
        self._unreachable = True
        for connection in (*self._used, *([self._listener] if self._listener else ())):
            shut_down(connection)

    async def mark_reachable(self, listener: Connection) -> None:
        """Resume with new connections: the database is back, possibly on another server.

        Whoever uses a connection to the same server goes on: `mark_unreachable` has failed all
        that were in use when the database went away.
        """
        for connection in self._used:
            if connection.server != listener.server:
                shut_down(connection)
        self._listener, self._server = listener, listener.server
        await self._close_idle()
        self._unreachable = False

    async def _close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def connect(self) -> Connection:
        """Open a connection outside the pool, for the caller alone."""
        try:
            connection = await Connection.connect(
                self._conninfo, autocommit=True, prepare_threshold=1
            )
            await _set_up(connection)
        except (psycopg.Error, OSError, ValueError) as error:
            # Without the cause: its text would be part of a traceback.
            raise Unavailable("StoreFailed", _failed(connection_failure(error))) from None
        return connection

    @asynccontextmanager
    async def acquire(self, seconds: float = RESPONSE_SECONDS) -> AsyncIterator[Connection]:
        """Lend a connection for a few statements, each of which may take this long."""
        if self._closed:
            raise Unavailable("StoreClosed", "the store is closed; open it first")
        async with self._read_slots if lanes.is_reading() else self._slots:
            if self._unreachable:
                raise Unavailable("StoreAway", "the database is unreachable; try again")
            connection = await self._take_idle() or await self._connect_to_server()
            self._used.add(connection)
            try:
                with time_limit(connection, seconds + 1):
                    if seconds > RESPONSE_SECONDS:
                        await connection.execute(_STATEMENT_TIMEOUT, (f"{seconds:.0f}s",))
                        connection.reusable = False
                    yield connection
            except psycopg.Error as error:
                raise translate_error(error) from error
            except asyncio.CancelledError:
                await connection.close()
                raise
            finally:
                await self._put_back(connection)

    async def _take_idle(self) -> Connection | None:
        """Take an idle connection that the server has not closed meanwhile."""
        while self._idle:
            connection = self._idle.pop()
            if not _has_input(connection):
                return connection
            await connection.close()
        return None

    async def _connect_to_server(self) -> Connection:
        """Open a connection, to the server that the listener is connected to."""
        connection = await self.connect()
        if self._server not in {"", connection.server}:
            await connection.close()
            self.mark_unreachable()
            raise server_changed()
        return connection

    async def _put_back(self, connection: Connection) -> None:
        self._used.discard(connection)
        unusable = self._closed or self._unreachable or connection.closed
        if (
            unusable
            or not connection.reusable
            or (self._server and connection.server != self._server)
        ):
            await connection.close()
        else:
            self._idle.append(connection)


async def _set_up(connection: Connection) -> None:
    """Apply the settings of all connections, and read which server it is; close it on failure."""
    try:
        with time_limit(connection):
            cursor = await connection.execute(_SETTINGS, _VALUES, prepare=False)
            ((*_, connection.server),) = await cursor.fetchall()
    except BaseException:  # also if it is cancelled, as when the service stops
        await connection.close()
        raise


def _has_input(connection: Connection) -> bool:
    """Whether there is something to read: of an idle connection, that it was closed."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def server_changed() -> Unavailable:
    """The error while this process does not know yet what another server contains."""
    return Unavailable("StoreAway", "another database server has taken over; try again")


def _with_defaults(url: str) -> str:
    try:
        parameters = conninfo_to_dict(url)
        defaults = {key: _DEFAULTS[key] for key in _DEFAULTS if key not in parameters}
        # Without client_encoding psycopg returns bytes for text if the database uses the C locale.
        return make_conninfo(url, **defaults, client_encoding="UTF8")
    except (psycopg.Error, ValueError):
        raise Refused("BadDatabase", BAD_URL) from None


@contextmanager
def time_limit(connection: Connection, seconds: float = RESPONSE_SECONDS + 1) -> Iterator[None]:
    """Shut the socket down on timeout: cancelling a statement would need a response as well."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    timers: list[asyncio.TimerHandle] = []

    def expire() -> None:
        if loop.time() - deadline > _LATE_SECONDS:  # this process was busy: look for a response
            timers.append(loop.call_later(_LATE_SECONDS, shut_down, connection))
        else:
            shut_down(connection)

    timers.append(loop.call_at(deadline, expire))
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


def shut_down(connection: Connection) -> None:
    """Shut the socket down, so that a caller waiting for a response fails at once."""
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_RDWR)


def translate_error(error: psycopg.Error) -> FairwarningError:
    """Return the error to raise; its text never contains the database's location (IS3).

    The texts of the server do not, those of libpq may: they are replaced.
    """
    if isinstance(error, psycopg.DataError):
        text = "a string contains a character that the database cannot store; remove it"
        return Conflict("BadText", text)
    if isinstance(error, psycopg.errors.QueryCanceled):
        return Unavailable("StoreSlow", "the database took too long; try again")
    if isinstance(error, psycopg.errors.DiskFull):
        return Unavailable("StoreFull", "no space left for the database; free some space to resume")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return Unavailable("StoreDenied", f"the database denied access: {_message(error)}")
    return Unavailable("StoreFailed", _failed(_message(error)))


def _failed(reason: str) -> str:
    return f"the database failed: {reason}; try again"


def _message(error: psycopg.Error) -> str:
    if error.diag.message_primary:
        return error.diag.message_primary.partition("\n")[0]
    connection = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return LOST if connection else type(error).__name__
