"""Old and new versions on one PostgreSQL at the same time, and several processes that migrate."""

import asyncio
import logging
from contextlib import closing

import psycopg
import pytest

from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Ref, Scope, ScopeKind
from fairwarning.store.postgres import schema
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.scripts import Migration
from fairwarning.store.store import Batch
from tests.cluster.proxy import Proxy
from tests.fixtures.postgres.database import (
    count_waiting,
    database_or_skip,
    migrated_database_or_skip,
)
from tests.fixtures.postgres.server import shared
from tests.fixtures.waiting import wait_until_async

SHIPPED = schema.migrations()
NEXT = len(SHIPPED) + 1
A: Ref = (Scope, "a")


def later(needs: int) -> list[Migration]:
    """The migrations of a later version, whose last one changes a table."""
    text = f"-- needs: {needs}\nALTER TABLE note ADD COLUMN colour text;"
    return [*SHIPPED, Migration(NEXT, f"{NEXT:04}_colour.sql", text)]


def has_colour(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    """Whether the migration of the later version was applied."""
    query = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'colour'"
    return connection.execute(query).fetchone() == (1,)


@pytest.fixture
def url() -> str:
    """A database of this version."""
    return migrated_database_or_skip()


async def test_a_migration_does_not_stall_running_processes(url: str) -> None:
    """While it waits for a long transaction, older processes read and write as before."""
    old, new = PostgresStore(url), PostgresStore(url, migrations=later(needs=1))
    await old.open()
    with psycopg.connect(url) as reader, psycopg.connect(url, autocommit=True) as other:
        reader.execute("SELECT FROM fairwarning.note")  # as pg_dump does, for hours
        opening = asyncio.create_task(new.open())
        await wait_until_async(lambda: count_waiting(other) == 1, "it waits")
        await old.add_note_if_absent("name", "value")
        scope = Scope(id="a", kind=ScopeKind.STANDALONE, version=1)
        await old.commit(Batch(1.0, {A: (None, scope)}))
        assert await old.get_note("name") == "value"
        assert not opening.done()
        reader.rollback()
        await opening
        assert has_colour(other)
        assert await old.get_note("name") == await new.get_note("name") == "value"
    await old.close()
    await new.close()


async def test_a_migration_that_breaks_running_processes_is_refused(url: str) -> None:
    """Until they have stopped; the error says so, and they go on."""
    old, new = PostgresStore(url), PostgresStore(url, migrations=later(needs=NEXT))
    await old.open()
    with pytest.raises(Unavailable) as refused:
        await new.open()
    assert refused.value.code == "OlderProcesses"
    assert "stop all of them" in refused.value.message
    with closing(psycopg.connect(url)) as other:
        assert not has_colour(other)
    await old.add_note_if_absent("name", "value")
    await old.close()
    await new.open()
    assert await new.get_note("name") == "value"
    await new.close()


async def test_a_process_says_that_it_waits_for_another_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One migrates and the others wait; then all of them work."""
    caplog.set_level(logging.INFO)
    url = database_or_skip()
    stores = [PostgresStore(url) for _ in range(2)]
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", (schema._LOCK,))
        opening = asyncio.gather(*(store.open() for store in stores))
        text = "another process migrates the database; waiting for it"
        await wait_until_async(lambda: caplog.text.count(text) == len(stores), "both say so")
        await wait_until_async(lambda: count_waiting(other) == 2, "both wait")
        other.execute("SELECT pg_advisory_unlock(%s)", (schema._LOCK,))
        await opening
    for store in stores:
        assert await store.position() == 0
        await store.close()


@pytest.fixture
def _short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the server often, and wait for locks for a moment only."""
    monkeypatch.setattr(schema, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(schema, "_BLOCKED_SECONDS", 0.5)
    monkeypatch.setattr(schema, "_RETRY_SECONDS", 0.1)


async def opening_error(store: PostgresStore) -> Unavailable:
    """Return the error with which the store does not open."""
    with pytest.raises(Unavailable) as refused:
        await store.open()
    return refused.value


@pytest.mark.usefixtures("_short_limits")
async def test_a_connection_that_goes_silent_ends_the_migration(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """IB6: the process fails, so that it can be restarted; the log says what it waited for."""
    url = database_or_skip()
    async with Proxy(shared().port) as proxy:
        store = PostgresStore(url.replace(f":{shared().port}/", f":{proxy.port}/"))
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("SELECT pg_advisory_lock(%s)", (schema._LOCK,))
            opening = asyncio.create_task(opening_error(store))
            await wait_until_async(lambda: count_waiting(other) == 1, "it waits")
            proxy.cut_off(silently=True)
            other.execute("SELECT pg_advisory_unlock(%s)", (schema._LOCK,))
            assert (await opening).code == "StoreFailed"
    assert "waiting for the migration of the database since" in caplog.text
    assert "the database does not answer" in caplog.text


@pytest.mark.usefixtures("_short_limits")
async def test_a_migration_may_take_as_long_as_the_server_works_on_it(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """IB6: only waiting is limited. The log says that the server works."""
    slow = Migration(NEXT, f"{NEXT:04}_slow.sql", "-- needs: 1\nSELECT pg_sleep(1);")
    store = PostgresStore(url, migrations=[*SHIPPED, slow])
    await store.open()
    await store.close()
    assert caplog.text.count("its session is active") > schema._SILENT_LOOKS


@pytest.mark.usefixtures("_short_limits")
@pytest.mark.parametrize("turn", [True, False], ids=["turn", "table"])
async def test_a_migration_does_not_wait_for_a_lock_for_ever(url: str, turn: bool) -> None:
    """IB6: neither for another process that migrates, nor for the transactions of others."""
    lock = f"SELECT pg_advisory_xact_lock({schema._LOCK})" if turn else "SELECT FROM note"
    with psycopg.connect(url, options="-c search_path=fairwarning") as other:
        other.execute(lock.encode())
        error = await opening_error(PostgresStore(url, migrations=later(needs=1)))
        assert error.code == "MigrationBlocked"
        assert "pg_stat_activity" in error.message
