"""All stores, over which the tests of the protocol run. Add a new store here."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairwarning.store.memory import MemoryStore
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.fixtures.postgres.database import migrated_database_or_skip, opened
from tests.fixtures.postgres.server import shared
from tests.fixtures.waiting import AsyncTest, using

Scenario = Callable[[Store], Coroutine[None, None, None]]


@contextmanager
def _memory(_: Path) -> Iterator[Store]:
    yield MemoryStore()


@contextmanager
def _sqlite(folder: Path) -> Iterator[Store]:
    yield SQLiteStore(folder / "fleet.db", reserved_bytes=4096)


@contextmanager
def _postgresql(_: Path) -> Iterator[Store]:
    with migrated_database() as url:
        yield PostgresStore(url)


@contextmanager
def migrated_database() -> Iterator[str]:
    """A database with our schema."""
    url = migrated_database_or_skip()
    yield url
    shared().drop(url)


@asynccontextmanager
async def store_and_url() -> AsyncIterator[tuple[PostgresStore, str]]:
    """A store, with the URL of its database."""
    with migrated_database() as url:
        async with opened(url) as store:
            yield store, url


on_a_database = using(store_and_url, 2)


STORES = {"memory": _memory, "sqlite": _sqlite, "postgresql": _postgresql}


def run_scenario(store: Store, scenario: Scenario) -> None:
    """Open the store, run a scenario, and close it."""

    async def run() -> None:
        await store.open()
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(run())


async def restart(store: Store) -> None:
    """Close and open the store, as when its process restarts."""
    await store.close()
    await store.open()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of each kind, not yet open."""
    with STORES[request.param](tmp_path) as made:
        yield made


def on_open_store(test: AsyncTest) -> Callable[..., None]:
    """Run a coroutine test on an open store of each kind."""

    @functools.wraps(test)
    def run(store: Store, **fixtures: Any) -> None:  # noqa: ANN401  (any fixtures)
        run_scenario(store, lambda opened: test(opened, **fixtures))

    return run
