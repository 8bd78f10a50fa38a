"""Reads never delay writes (IB3): the lanes to a store (`store/lanes.py`)."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fairwarning.core.commands import Approve, Poll, Restart
from fairwarning.core.errors import Unavailable
from fairwarning.core.model import EventStatus, Scope
from fairwarning.store import lanes
from fairwarning.store.files import SqliteConnection
from fairwarning.store.postgres import connections
from fairwarning.store.postgres.store import READ_CONNECTIONS, PostgresStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, Store
from tests.bench.fleets import Never, serving
from tests.fixtures.fleet import NOON, standalone
from tests.fixtures.waiting import run_async, wait_until_async
from tests.store.conftest import STORES

ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
READERS = 20


async def read_for_ever(store: Store, begun: asyncio.Event) -> None:
    """Occupy the reads lane with a read that does not end."""
    loop = asyncio.get_running_loop()

    def run(connection: SqliteConnection) -> object:
        loop.call_soon_threadsafe(begun.set)
        return connection.execute(ENDLESS).fetchone()

    with lanes.reads_lane():
        if isinstance(store, SQLiteStore):
            await store._read(run)
        else:
            assert isinstance(store, PostgresStore)
            async with store._connections.acquire():
                begun.set()
                await asyncio.Event().wait()


@asynccontextmanager
async def reading(store: Store) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Readers that occupy all of the reads lane."""
    begun = [asyncio.Event() for _ in range(READERS)]
    tasks = [asyncio.create_task(read_for_ever(store, event)) for event in begun]
    at_work = READ_CONNECTIONS if isinstance(store, PostgresStore) else 1
    await wait_until_async(lambda: sum(event.is_set() for event in begun) >= at_work)
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_writes_go_on_while_reads_do_not_end(kind: str, tmp_path: Path) -> None:
    """A commit, a command and an approval need nothing of the reads lane."""

    async def scenario(store: Store) -> None:
        async with serving(store, Never()) as fleet, reading(store):
            await fleet.submit(standalone())
            await fleet.submit(Poll(scope="vm", actor="machine"))
            await fleet.submit(Restart(scope="vm", operation="r", machines=("vm",)))
            scope = await fleet.reader.read(Scope, "vm")
            assert scope
            await fleet.submit(Approve(scope="vm", events=tuple(scope.events), actor="vm"))
            await store.commit(Batch(NOON, notes={"name": "value"}))
            assert await store.get_note("name") == "value"
            scope = await fleet.reader.read(Scope, "vm")
            assert scope
            (event,) = scope.events.values()
            assert event.status is EventStatus.STARTED

    with STORES[kind](tmp_path) as store:
        run_async(scenario)(store)


async def test_a_read_that_is_in_the_way_gives_way(tmp_path: Path) -> None:
    """SQLite ends its statement as soon as other work waits, and its caller can try again."""
    store = SQLiteStore(tmp_path / "fleet.db")
    await store.open()
    begun = asyncio.Event()
    read = asyncio.create_task(read_for_ever(store, begun))
    await begun.wait()
    await store.commit(Batch(NOON, notes={"name": "value"}))
    with pytest.raises(Unavailable, match=r"StoreBusy: .*; try again"):
        await read
    await store.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_read_whose_caller_is_gone_is_stopped(kind: str, tmp_path: Path) -> None:
    """It leaves its place to the next read, whether it has begun or waits."""

    async def scenario(store: Store) -> None:
        await store.open()
        async with reading(store) as tasks:
            for task in tasks:
                task.cancel()
            with lanes.reads_lane():
                assert await store.get_note("name") is None
        await store.close()

    with STORES[kind](tmp_path) as store:
        run_async(scenario)(store)


async def test_writes_go_before_reads_that_wait(tmp_path: Path) -> None:
    """On the thread of SQLite, the jobs of the first lane run before all reads, in order."""
    store = SQLiteStore(tmp_path / "fleet.db")
    await store.open()
    go, order = threading.Event(), list[str]()

    async def add(name: str) -> None:
        await store._read(lambda _: order.append(name))

    held = asyncio.create_task(store._read(lambda _: go.wait()))
    await asyncio.sleep(0)
    with lanes.reads_lane():
        reads = [asyncio.create_task(add(f"read {n}")) for n in range(3)]
    writes = [asyncio.create_task(add(f"write {n}")) for n in range(3)]
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(held, *reads, *writes)
    assert order == [f"{kind} {n}" for kind in ("write", "read") for n in range(3)]
    await store.close()


async def test_closing_ends_the_reads_that_wait(tmp_path: Path) -> None:
    """Reads that were queued before the store is closed get their results."""
    store = SQLiteStore(tmp_path / "fleet.db")
    await store.open()
    with lanes.reads_lane():
        reads = [asyncio.create_task(store.get_note("name")) for _ in range(READERS)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*reads) == [None] * READERS


async def test_reads_beyond_the_lane_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL: a read that finds no connection in time fails; a write finds one."""
    monkeypatch.setattr(connections._Slots, "seconds", 0.05)
    with STORES["postgresql"](tmp_path) as store:
        await store.open()
        async with reading(store):
            with lanes.reads_lane(), pytest.raises(Unavailable, match="StoreBusy"):
                await store.get_note("name")
            assert await store.get_note("name") is None
        await store.close()
