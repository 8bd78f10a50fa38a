"""The statements of queries.sql, executed by name."""

from fairwarning.store import scripts
from fairwarning.store.postgres.connections import Connection, ConnectionPool
from fairwarning.store.postgres.schema import FOLDER
from fairwarning.store.sql_reads import Row

_SQL = scripts.queries(FOLDER)


async def execute(connection: Connection, query: str, **values: object) -> list[Row]:
    """Execute a statement and return its rows."""
    cursor = await connection.execute(_SQL[query], values)
    return await cursor.fetchall() if cursor.description else []


async def run(connections: ConnectionPool, query: str, **values: object) -> list[Row]:
    """Execute a statement on a connection of the pool."""
    async with connections.acquire() as connection:
        return await execute(connection, query, **values)
