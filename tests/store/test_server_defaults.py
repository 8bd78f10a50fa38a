"""Defaults that an operator has changed, of sessions and of databases: nothing depends on them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from psycopg import sql

from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.store import Batch, Store
from tests.fixtures.postgres.database import database_or_skip, opened
from tests.fixtures.postgres.server import shared
from tests.fixtures.waiting import using
from tests.store.conftest import restart, run_scenario, store_and_url
from tests.store.test_parallel_commits import creation

HOSTILE = {
    "default_transaction_isolation": ("serializable", "read committed"),
    "extra_float_digits": ("-15", "1"),
    "lock_timeout": ("1ms", "0"),
    "statement_timeout": ("1s", "5s"),
    "idle_in_transaction_session_timeout": ("1ms", "5s"),
    "synchronous_commit": ("off", "on"),
    "search_path": ("pg_catalog", "fairwarning"),
    # Nothing depends on these.
    "TimeZone": ("Asia/Kolkata", "Asia/Kolkata"),
    "DateStyle": ("German", "German, DMY"),
    "IntervalStyle": ("iso_8601", "iso_8601"),
    "standard_conforming_strings": ("off", "off"),
    "bytea_output": ("escape", "escape"),
}
COMMITS = 60  # of each process


@asynccontextmanager
async def two_stores() -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    """The stores of two processes, on a database with hostile defaults."""
    async with store_and_url() as (_, url):
        with psycopg.connect(url, autocommit=True) as connection:
            for name, (value, _) in HOSTILE.items():
                change = sql.SQL("ALTER DATABASE {} SET {} TO {}").format(
                    sql.Identifier(connection.info.dbname), sql.Identifier(name), sql.Literal(value)
                )
                connection.execute(change)
        async with opened(url) as first, opened(url) as second:
            yield first, second


on_two_stores = using(two_stores, 2)


@on_two_stores
async def test_a_session_sets_what_it_depends_on(
    first: PostgresStore, second: PostgresStore
) -> None:
    """Whatever the database, the role or the configuration of the server says."""
    async with first._connections.acquire() as connection:
        for name, (_, expected) in HOSTILE.items():
            cursor = await connection.execute(sql.SQL("SHOW {}").format(sql.Identifier(name)))
            assert (name, await cursor.fetchone()) == (name, (expected,))


@on_two_stores
async def test_commits_of_two_processes_succeed(
    first: PostgresStore, second: PostgresStore
) -> None:
    """None is refused because of another one that is at work."""
    await asyncio.gather(
        *(store.commit(creation(f"{name}{number}")) for number in range(COMMITS)
          for name, store in (("a", first), ("b", second)))
    )  # fmt: skip
    assert await first.position() == 2 * COMMITS


@on_two_stores
async def test_times_are_exact(first: PostgresStore, second: PostgresStore) -> None:
    """A number is read with all its digits."""
    await first.record_polls({"a": 1763478000.123456})
    assert await first.recorded_polls(["a"]) == {"a": 1763478000.123456}


def test_a_database_without_an_encoding_can_be_used() -> None:
    """`initdb` creates an SQL_ASCII database in the C locale; text is read as it was written."""
    url = database_or_skip()
    name = url.rpartition("/")[2]
    shared().drop(url)
    shared().execute("CREATE DATABASE {} TEMPLATE template0 ENCODING 'SQL_ASCII'", name)

    async def write_and_read(store: Store) -> None:
        await store.commit(Batch(1.0, notes={"a": "größe"}))
        await restart(store)
        assert await store.get_note("a") == "größe"

    run_scenario(PostgresStore(url), write_and_read)
    shared().drop(url)
