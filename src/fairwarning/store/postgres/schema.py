"""The steps of the PostgreSQL schema: by one process at a time, beside others that run."""

from collections.abc import Sequence

from fairwarning.store import scripts
from fairwarning.store.postgres.connections import SCHEMA, Connection
from fairwarning.store.scripts import Migration

_LOCK = 0x46616972  # any number, as long as every version takes the same
_KNOWN = """
CREATE TABLE IF NOT EXISTS migration (
    number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
    needs integer NOT NULL, at timestamptz NOT NULL DEFAULT now()
)
"""


def migrations() -> list[Migration]:
    """All steps of the schema, in order."""
    return scripts.migrations(__package__)


async def migrate(connection: Connection, steps: Sequence[Migration]) -> None:
    """Bring the database to the newest step: all of the steps that it lacks, or none.

    A database with newer steps is good enough if they say so: older processes run on, and may be
    started again, while newer ones take over from them.
    """
    async with connection.transaction():
        await connection.execute("SELECT set_config('statement_timeout', '0', true)")
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        await connection.execute(_KNOWN)
        found = await connection.execute(
            "SELECT number, name, checksum, needs FROM migration ORDER BY number"
        )
        done = [
            (int(row[0]), str(row[1]), str(row[2]), int(row[3])) for row in await found.fetchall()
        ]
        scripts.check(done, steps)
        for step in steps[len(done) :]:
            await connection.execute(step.text.encode())
            await connection.execute(
                "INSERT INTO migration (number, name, checksum, needs) VALUES (%s, %s, %s, %s)",
                (step.number, step.name, step.checksum, step.needs),
            )
