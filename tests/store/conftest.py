"""Every store a test of promises is run over. A new one is added here."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from fairwarning.store.memory import MemoryStore
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.fixtures.postgres.database import database_or_skip

Story = Callable[[Store], Coroutine[None, None, None]]
Kept = Callable[[Story], None]

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda folder: SQLiteStore(folder / "fleet.db", ballast_bytes=4096),
    "postgresql": lambda _: PostgresStore(database_or_skip()),
}


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
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    """Plays a story on a store of each kind."""
    store = STORES[request.param](tmp_path)
    return lambda story: play(store, story)
