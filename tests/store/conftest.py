"""All stores, over which the tests of the protocol run. Add a new store here."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairwarning.store.memory import MemoryStore
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.fixtures.postgres.database import migrated_database_or_skip
from tests.fixtures.postgres.server import shared

Scenario = Callable[[Store], Coroutine[None, None, None]]
AsyncTest = Callable[..., Coroutine[Any, Any, None]]
Resources = Callable[[], AbstractAsyncContextManager[tuple[Any, ...]]]


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


def each_store(test: AsyncTest) -> Callable[..., None]:
    """Run a coroutine test on an open store of each kind."""

    @functools.wraps(test)
    def run(store: Store, **fixtures: Any) -> None:  # noqa: ANN401  (any fixtures)
        run_scenario(store, lambda opened: test(opened, **fixtures))

    return run


def using(resources: Resources, count: int) -> Callable[[AsyncTest], Callable[..., None]]:
    """Run a coroutine test with these resources, of which it takes `count` as first arguments."""

    def decorate(test: AsyncTest) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:  # noqa: ANN401  (any fixtures)
            async def use() -> None:
                async with resources() as values:
                    await test(*values, **fixtures)

            asyncio.run(use())

        own = list(inspect.signature(test).parameters.values())[count:]
        run.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        return run

    return decorate
