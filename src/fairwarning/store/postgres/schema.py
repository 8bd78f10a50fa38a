"""Migrations of the PostgreSQL schema: applied by one process while others may be running."""

import asyncio
import logging
from collections.abc import Sequence

import psycopg

from fairwarning.core.errors import Unavailable
from fairwarning.store import scripts
from fairwarning.store.postgres.connections import SCHEMA, Connection
from fairwarning.store.scripts import Migration

log = logging.getLogger(__name__)

_LOCK = 0x46616972  # an arbitrary number that every version must use
_LOCK_TIMEOUT = "1s"  # for the lock of a table
_RETRY_SECONDS = 2.0
_MIGRATION_TABLE = """
CREATE TABLE IF NOT EXISTS migration (
    number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
    needs integer NOT NULL, at timestamptz NOT NULL DEFAULT now()
)
"""


def migrations() -> list[Migration]:
    """Return all migrations, in order."""
    return scripts.migrations(__package__)


async def migrate(connection: Connection, migrations: Sequence[Migration]) -> None:
    """Apply all missing migrations, or none.

    A database may have newer migrations if they allow this version: during an upgrade older
    processes keep running, and may restart, while newer ones replace them.
    """
    while True:
        try:
            async with connection.transaction():
                await _migrate(connection, migrations)
        except psycopg.errors.LockNotAvailable:
            log.warning("the migration waits for a long transaction in the database; retrying")
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return


async def _migrate(connection: Connection, migrations: Sequence[Migration]) -> None:
    await connection.execute("SELECT set_config('statement_timeout', '0', true)")
    await _wait_for_turn(connection)
    # Statements of running processes queue up behind a table lock that is waited for.
    await connection.execute("SELECT set_config('lock_timeout', %s, true)", (_LOCK_TIMEOUT,))
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
    if await cursor.fetchone() != (True,):
        log.info("another process migrates the database; waiting for it")
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


async def _refuse_beside_older_processes(connection: Connection) -> None:
    """Keep older processes working: they do not understand the schema after the migration."""
    cursor = await connection.execute("SELECT EXISTS (SELECT FROM process WHERE until > now())")
    if await cursor.fetchone() == (True,):
        raise Unavailable(
            "OlderProcesses",
            "processes of an older version use the database and do not understand the schema of"
            " this version; stop all of them, wait a few seconds, and start this one again",
        )
