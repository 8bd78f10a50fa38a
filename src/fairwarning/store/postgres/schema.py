"""Migrations of the PostgreSQL schema: applied by one process while others may be running."""

from collections.abc import Sequence

from fairwarning.store import scripts
from fairwarning.store.postgres.connections import SCHEMA, Connection
from fairwarning.store.scripts import Migration

_LOCK = 0x46616972  # an arbitrary number that every version must use
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
    async with connection.transaction():
        await connection.execute("SELECT set_config('statement_timeout', '0', true)")
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        await connection.execute(_MIGRATION_TABLE)
        cursor = await connection.execute(
            "SELECT number, name, checksum, needs FROM migration ORDER BY number"
        )
        applied = [
            (int(row[0]), str(row[1]), str(row[2]), int(row[3])) for row in await cursor.fetchall()
        ]
        scripts.check(applied, migrations)
        for migration in migrations[len(applied) :]:
            await connection.execute(migration.text.encode())
            await connection.execute(
                "INSERT INTO migration (number, name, checksum, needs) VALUES (%s, %s, %s, %s)",
                (migration.number, migration.name, migration.checksum, migration.needs),
            )
