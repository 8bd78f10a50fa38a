"""Migrations of the PostgreSQL schema: applied by one process while others may be running.

A migration may take as long as the server works on it. What is limited is waiting: for locks, and
for a server that does not respond (IB6).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from time import monotonic

import psycopg

from fairwarning.core.errors import Unavailable
from fairwarning.store import scripts
from fairwarning.store.postgres.connections import SCHEMA, Connection, shut_down, time_limit
from fairwarning.store.scripts import Migration

log = logging.getLogger(__name__)

Connect = Callable[[], Awaitable[Connection]]
SessionState = tuple[str, datetime, str | None, str | None]

FOLDER = Path(__file__).parent / "sql"

_LOCK = 0x46616972  # an arbitrary number that every version must use
_LOCK_TIMEOUT = "1s"  # for the lock of a table
_RETRY_SECONDS = 2.0
_BLOCKED_SECONDS = 600.0  # for the turn of this process, and for the locks of all tables
_LOOK_SECONDS = 10.0  # between two looks at what the server does
_SILENT_LOOKS = 2  # without a sign of life, after which the connection counts as lost
_SESSION_STATE = """
SELECT state, state_change, wait_event_type, wait_event FROM pg_stat_activity WHERE pid = %s
"""
_MIGRATION_TABLE = """
CREATE TABLE IF NOT EXISTS migration (
    number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
    needs integer NOT NULL, at timestamptz NOT NULL DEFAULT now()
)
"""


def migrations() -> list[Migration]:
    """Return all migrations, in order."""
    return scripts.migrations(FOLDER)


async def migrate(
    connection: Connection, migrations: Sequence[Migration], connect: Connect
) -> None:
    """Apply all missing migrations, or none; `connect` opens a connection beside this one.

    A database may have newer migrations if they allow this version: during an upgrade older
    processes keep running, and may restart, while newer ones replace them.
    """
    with time_limit(connection):
        cursor = await connection.execute("SELECT pg_backend_pid()")
        ((session,),) = await cursor.fetchall()
    watching = asyncio.create_task(_watch(connection, session, connect))
    try:
        await _migrate_between_locks(connection, migrations)
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _migrate_between_locks(connection: Connection, migrations: Sequence[Migration]) -> None:
    deadline = monotonic() + _BLOCKED_SECONDS
    while True:
        try:
            async with connection.transaction():
                await _migrate(connection, migrations)
        except psycopg.errors.LockNotAvailable:
            if monotonic() > deadline:
                raise _blocked("a transaction of another program") from None
            log.warning("the migration waits for a long transaction in the database; retrying")
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return


async def _migrate(connection: Connection, migrations: Sequence[Migration]) -> None:
    await connection.execute("SELECT set_config('statement_timeout', '0', true)")
    await _wait_for_turn(connection)
    # Statements of running processes queue up behind a table lock that is waited for.
    await _limit_locks(connection, _LOCK_TIMEOUT)
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    await connection.execute(_MIGRATION_TABLE)
    cursor = await connection.execute(
        "SELECT number, name, checksum, needs FROM migration ORDER BY number"
    )
    applied = [
        (int(row[0]), str(row[1]), str(row[2]), int(row[3])) for row in await cursor.fetchall()
    ]
    scripts.check(applied, migrations)
    missing = migrations[len(applied) :]
    if applied and any(migration.needs > applied[-1][0] for migration in missing):
        await _refuse_beside_older_processes(connection)
    for migration in missing:
        await connection.execute(migration.text.encode())
        await connection.execute(
            "INSERT INTO migration (number, name, checksum, needs) VALUES (%s, %s, %s, %s)",
            (migration.number, migration.name, migration.checksum, migration.needs),
        )


async def _wait_for_turn(connection: Connection) -> None:
    """Take the lock under which one process at a time migrates, until the transaction ends."""
    cursor = await connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (_LOCK,))
    if await cursor.fetchone() == (True,):
        return
    log.info("another process migrates the database; waiting for it")
    await _limit_locks(connection, f"{_BLOCKED_SECONDS:g}s")
    try:
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    except psycopg.errors.LockNotAvailable:
        raise _blocked("another process that migrates it") from None


async def _limit_locks(connection: Connection, limit: str) -> None:
    await connection.execute("SELECT set_config('lock_timeout', %s, true)", (limit,))


def _blocked(by: str) -> Unavailable:
    text = (
        f"the database could not be migrated for {_BLOCKED_SECONDS:g} seconds because of {by};"
        " end it (pg_stat_activity shows it), then start the service again"
    )
    return Unavailable("MigrationBlocked", text)


async def _watch(connection: Connection, session: int, connect: Connect) -> None:
    """Report what takes long, and cut the connection when the server does nothing for it.

    A connection cannot be asked while it waits for a response, so another one is.
    """
    began, silent, before = monotonic(), 0, None
    while silent < _SILENT_LOOKS:
        await asyncio.sleep(_LOOK_SECONDS)
        state = await _look(session, connect)
        alive = state is not None and (state[0] == "active" or state != before)
        silent, before = 0 if alive else silent + 1, state
        log.warning(
            "waiting for the migration of the database since %.0f s: %s",
            monotonic() - began,
            "its session is " + " ".join(filter(None, (state[0], *state[2:])))
            if state
            else "the database does not answer",
        )
    log.error("the database does nothing for the migration; giving the connection up")
    shut_down(connection)


async def _look(session: int, connect: Connect) -> SessionState | None:
    """Return what a session of the server does; None without an answer."""
    try:
        connection = await connect()
        try:
            with time_limit(connection):
                cursor = await connection.execute(_SESSION_STATE, (session,))
                row = await cursor.fetchone()
        finally:
            await connection.close()
    except (psycopg.Error, Unavailable):
        return None
    return row and (row[0], row[1], row[2], row[3])


async def _refuse_beside_older_processes(connection: Connection) -> None:
    """Keep older processes working: they do not understand the schema after the migration."""
    cursor = await connection.execute(
        "SELECT EXISTS (SELECT FROM lease WHERE until > extract(epoch FROM now()))"
    )
    if await cursor.fetchone() == (True,):
        raise Unavailable(
            "OlderProcesses",
            "processes of an older version use the database and do not understand the schema of"
            " this version; stop all of them, wait a few seconds, and start this one again",
        )
