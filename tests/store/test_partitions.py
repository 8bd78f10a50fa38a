"""Old partitions of the journal are dropped without delaying commits, whoever reads it."""

import asyncio
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest

from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Ref, Scope
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.store import Batch
from tests.fixtures.postgres import programs
from tests.fixtures.waiting import LIMIT_SECONDS, on_this_machine, using
from tests.store.batch_generator import line_about
from tests.store.conftest import store_and_url

A: Ref = (Scope, "a")
SIZE = 1_000_000  # lines of a partition
OLD_LINES = 5000  # more than fits in a pipe, as a dump
BUFFER = 1024  # bytes
COMMITS = 20
STALL_SECONDS = 2.0  # many times what a commit takes on a busy machine


@asynccontextmanager
async def two_partitions() -> AsyncIterator[tuple[PostgresStore, str]]:
    """A store whose older partition can be dropped, with the URL of its database."""
    async with store_and_url() as (store, url):
        async with store._connections.acquire() as connection:
            await connection.execute(f"UPDATE head SET line = {SIZE - OLD_LINES - 1}".encode())
        lines = [line_about(A, at=1.0) for _ in range(OLD_LINES)]
        await store.commit(Batch(1.0, lines=lines))
        await store.commit(Batch(2.0, lines=[line_about(A, at=2.0)]))
        yield store, url


on_two_partitions = using(two_partitions, 2)


async def commit_and_drop(store: PostgresStore) -> str:
    """Commit beside an attempt to drop; return the reason why nothing was dropped."""
    dropping = asyncio.create_task(store.drop_old_lines(2.0))
    for _ in range(COMMITS):
        began = time.monotonic()
        await store.commit(Batch(3.0, lines=[line_about(A, at=3.0)]))
        assert time.monotonic() - began < on_this_machine(STALL_SECONDS), (
            "a commit waits for the reader"
        )
        await asyncio.sleep(0.01)
    with pytest.raises(Unavailable) as in_use:
        await dropping
    assert in_use.value.code == "JournalInUse"
    return in_use.value.message


async def assert_dropped(store: PostgresStore) -> None:
    """Assert that the old partition is dropped, as soon as its readers have ended."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            try:
                dropped = await store.drop_old_lines(2.0)
                break
            except Unavailable:  # a statement is slow, on a busy machine
                continue
    assert dropped == OLD_LINES
    assert [entry.number for entry in await store.journal(limit=1)] == [SIZE]
    assert await store.drop_old_lines(2.0) == 0


@pytest.mark.spec("X1")
@on_two_partitions
async def test_an_open_transaction_delays_the_drop_and_no_commit(
    store: PostgresStore, url: str
) -> None:
    """The error names the reader. The drop happens once the transaction has ended."""
    reader = await psycopg.AsyncConnection.connect(url, application_name="analysis")
    async with reader:
        await reader.execute("SELECT count(*) FROM fairwarning.journal")
        reason = await commit_and_drop(store)
        assert "in use by analysis (pid " in reason
        await reader.rollback()
        await assert_dropped(store)


@pytest.mark.spec("X1")
@on_two_partitions
async def test_a_dump_delays_the_drop_and_no_commit(store: PostgresStore, url: str) -> None:
    """The dump is complete. The drop happens once it has ended."""
    program = programs.folder() / "pg_dump"
    if not program.exists():
        pytest.skip("pg_dump is not installed: install PostgreSQL's client programs")
    words = ("--schema", "fairwarning", url)
    dump = await asyncio.create_subprocess_exec(program, *words, stdout=PIPE, limit=BUFFER)
    assert dump.stdout
    # It has its locks when it writes, and stops when the pipe is full.
    first = await dump.stdout.readexactly(1)
    assert "in use by pg_dump (pid " in await commit_and_drop(store)
    output = first + await dump.stdout.read()
    assert await dump.wait() == 0
    assert f"{SIZE - 1}\t1\t".encode() in output
    await assert_dropped(store)


@pytest.mark.spec("X1")
@on_two_partitions
async def test_short_reads_and_commits_do_not_prevent_the_drop(
    store: PostgresStore, url: str
) -> None:
    """Each ends within a moment."""
    stop = asyncio.Event()

    async def use(call: Callable[[], Awaitable[object]]) -> None:
        while not stop.is_set():
            await call()

    async with asyncio.TaskGroup() as group:
        group.create_task(use(lambda: store.journal(limit=10)))
        group.create_task(use(lambda: store.commit(Batch(3.0, lines=[line_about(A, at=3.0)]))))
        await assert_dropped(store)
        stop.set()
