"""Every store a test of promises is run over. A new one is added here."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairwarning.store.memory import MemoryStore
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.fixtures.postgres.database import migrated_database_or_skip
from tests.fixtures.postgres.server import shared

Story = Callable[[Store], Coroutine[None, None, None]]
Kept = Callable[[Story], None]


@contextmanager
def _memory(_: Path) -> Iterator[Store]:
    yield MemoryStore()


@contextmanager
def _sqlite(folder: Path) -> Iterator[Store]:
    yield SQLiteStore(folder / "fleet.db", reserved_bytes=4096)


@contextmanager
def _postgresql(_: Path) -> Iterator[Store]:
    url = migrated_database_or_skip()
    yield PostgresStore(url)
    shared().drop(url)


STORES = {"memory": _memory, "sqlite": _sqlite, "postgresql": _postgresql}


def play(store: Store, story: Story) -> None:
    """Open the store, let the story happen, close it."""

    async def whole() -> None:
        await store.open()
        try:
            await story(store)
        finally:
            await store.close()

    asyncio.run(whole())


async def restart(store: Store) -> None:
    """What a process that ends and starts again does to its store."""
    await store.close()
    await store.open()


@pytest.fixture(params=STORES)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    """Plays a story on a store of each kind."""
    with STORES[request.param](tmp_path) as store:
        yield lambda story: play(store, story)
