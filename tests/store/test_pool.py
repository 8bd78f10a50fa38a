"""The connections of a process: when all are in use, here or on the server, and afterwards."""

import asyncio
from contextlib import ExitStack
from typing import LiteralString

import psycopg
import pytest

from fairwarning.core.errors import Unavailable
from fairwarning.store.postgres import connections
from fairwarning.store.postgres.connections import Connection, ConnectionPool
from fairwarning.store.postgres.store import CONNECTIONS, PostgresStore
from tests.fixtures.postgres.database import database_or_skip, skip_without_postgres
from tests.fixtures.postgres.server import Server


@pytest.mark.spec("X1")
async def test_callers_do_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """If all connections stay busy, the caller gets an error; later it gets a connection."""
    monkeypatch.setattr(connections._Slots, "seconds", 0.2)
    pool = ConnectionPool(database_or_skip(), 2)
    pool.open()
    async with pool.acquire(), pool.acquire():
        with pytest.raises(Unavailable) as refused:
            async with pool.acquire():
                pytest.fail("there is no third connection")
        assert refused.value.code == "StoreBusy"
        assert refused.value.message.endswith("try again")
    for _ in range(5):
        async with pool.acquire() as connection:
            await connection.execute("SELECT 1")
    await pool.close()


async def test_a_cancelled_attempt_leaves_no_connection_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a service is stopped right after its start."""
    opened: list[Connection] = []
    execute = Connection.execute

    async def cancel_and_execute(
        connection: Connection, query: LiteralString, values: dict[str, str], *, prepare: bool
    ) -> object:
        opened.append(connection)
        attempt.cancel()
        return await execute(connection, query, values, prepare=prepare)

    monkeypatch.setattr(Connection, "execute", cancel_and_execute)
    attempt = asyncio.create_task(ConnectionPool(database_or_skip(), 1).connect())
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert [connection.closed for connection in opened] == [True]


@pytest.mark.spec("X1")
async def test_a_server_without_free_connections() -> None:
    """The error says what to do; when connections become free, the same store works."""
    skip_without_postgres()
    settings = {"max_connections": "12", "superuser_reserved_connections": "0"}
    with Server(durable=False, settings=settings) as server:
        store, late = PostgresStore(server.url()), PostgresStore(server.url())
        await store.open()
        with ExitStack() as others:
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                take_all_connections(server, others)
            reads = (store.get_note("name") for _ in range(CONNECTIONS))
            results = await asyncio.gather(*reads, return_exceptions=True)
            errors = [error for error in results if error is not None]
            with pytest.raises(Unavailable) as refused:
                await late.open()
        for error in (*errors, refused.value):
            assert isinstance(error, Unavailable)
            assert "all connections of the server are in use; raise its max_" in error.message
        assert errors
        await late.open()
        assert await asyncio.gather(*(store.get_note("name") for _ in range(9))) == [None] * 9
        await late.close()
        await store.close()


def take_all_connections(server: Server, others: ExitStack) -> None:
    """Connect until the server refuses."""
    while True:
        others.enter_context(psycopg.connect(server.url()))
