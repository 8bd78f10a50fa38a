"""Connections that are lost during a commit: what was reported as failed never lands."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import psycopg
import pytest

from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import Impact, ImpactKind, Machine, Ref, Scope, ScopeKind
from fairwarning.store.postgres.connections import shut_down
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.store import Batch
from tests.campaigns import split
from tests.cluster.proxy import Proxy
from tests.fixtures.postgres.server import shared
from tests.fixtures.waiting import wait_until_async
from tests.store.batch_generator import line_about
from tests.store.conftest import on_a_database

pytestmark = pytest.mark.spec("X3")

TABLES = ("batch", "entity", "head", "machine", "journal", "impact", "note")
CUTS = 1000
CUTS_PER_TEST = 40
LONGEST_SECONDS = 0.02
ACTIVE = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'fairwarning' AND state = 'active'
"""
OTHERS = "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
WAITING = f"{ACTIVE} AND wait_event_type = 'Lock'"


def batch(name: str) -> Batch:
    """Return a batch that writes to every table."""
    ref: Ref = (Scope, name)
    machine = Machine(name=name)
    scope = Scope(id=name, kind=ScopeKind.STANDALONE, machines={name: machine})
    impact = Impact(id=name, scope=name, machine=name, kind=ImpactKind.REBOOT, operation="o")
    return Batch(
        1.0, {ref: (None, scope)}, lines=[line_about(ref)], impacts=[impact], notes={name: name}
    )


async def commit(store: PostgresStore, name: str) -> str:
    """Commit a batch and return "done" or the code of the error."""
    try:
        await store.commit(batch(name))
    except FairwarningError as error:
        return error.code
    return "done"


@contextmanager
def locked(url: str, table: str) -> Iterator[None]:
    """Let commits wait before they write to a table."""
    with psycopg.connect(url) as connection:
        connection.execute(f"LOCK TABLE fairwarning.{table} IN EXCLUSIVE MODE".encode())
        yield


def cut(store: PostgresStore) -> None:
    """Cut the connections that the store uses now; the database goes on with its statements."""
    for connection in store._connections._used:
        shut_down(connection)


def is_count(connection: psycopg.Connection, query: str, expected: int) -> bool:
    """Return whether a query returns this number."""
    return connection.execute(query.encode()).fetchone() == (expected,)


async def wait_for(connection: psycopg.Connection, query: str, expected: int) -> None:
    """Wait until a query returns a number."""
    await wait_until_async(
        lambda: is_count(connection, query, expected), f"{expected} from {query}"
    )


async def wait_until_asked(connection: psycopg.Connection, outcome: "asyncio.Task[str]") -> None:
    """Wait until the store asks for the outcome of a commit, which waits too, or has it."""
    await wait_until_async(lambda: outcome.done() or is_count(connection, WAITING, 2))


async def committed(store: PostgresStore, url: str, name: str) -> bool:
    """Return whether a batch is in the database, once no statement is in progress any more."""
    with psycopg.connect(url, autocommit=True) as connection:
        await wait_for(connection, ACTIVE, 0)
    return (await store.load([(Scope, name)]))[Scope, name] is not None


@pytest.mark.parametrize("waits", split([True, False], 1))
@pytest.mark.parametrize("table", TABLES)
@on_a_database
async def test_the_outcome_of_a_commit_is_found_after_a_lost_connection(
    store: PostgresStore, url: str, table: str, waits: bool
) -> None:
    """Cut while it waits for a lock, its first commit too: done if it is there, else refused."""
    with psycopg.connect(url, autocommit=True) as observer:
        for name in ("first", "second"):
            with locked(url, table):
                outcome = asyncio.create_task(commit(store, name))
                await wait_for(observer, WAITING, 1)
                cut(store)
                if waits:
                    await wait_until_asked(observer, outcome)
            assert await outcome in {"done", "StoreFailed"}
            assert await committed(store, url, name) == (await outcome == "done")


@on_a_database
async def test_impacts_of_an_unclear_commit_are_found(store: PostgresStore, url: str) -> None:
    """An outcome that cannot be found is not reported as a failure: the commit may take place.

    Who looks for impacts waits for the end of such a commit, or prevents it.
    """
    async with Proxy(shared().port) as proxy:
        store = PostgresStore(url.replace(f":{shared().port}/", f":{proxy.port}/"))
        await store.open()
        with psycopg.connect(url, autocommit=True) as observer, locked(url, "head"):
            outcome = asyncio.create_task(commit(store, "a"))
            await wait_for(observer, WAITING, 1)
            proxy.cut_off(silently=False)
            assert await outcome == "StoreUnclear"
            proxy.restore()
            found = asyncio.create_task(store.unfinished_impacts("", 10))
            await wait_until_async(lambda: found.done() or is_count(observer, WAITING, 2))
        assert [impact.id for impact in await found] == ["a"]
        assert await committed(store, url, "a")
        await store.close()


@pytest.mark.spec("E9")
@on_a_database
async def test_impacts_that_were_taken_over_without_an_answer_are_found(
    store: PostgresStore, url: str
) -> None:
    """They have a holder that runs, which does not know them: it has to look again."""
    first = PostgresStore(url)
    await first.open()
    assert await commit(first, "a") == "done"
    await first.close()
    with psycopg.connect(url, autocommit=True) as observer:
        with locked(url, "impact"):
            claim = asyncio.create_task(store.unfinished_impacts("", 10))
            await wait_for(observer, WAITING, 1)
            cut(store)
            with pytest.raises(FairwarningError, match="StoreFailed"):
                await claim
        await wait_for(observer, ACTIVE, 0)
        holder = observer.execute("SELECT holder FROM fairwarning.impact").fetchone()
    assert holder == (store._lease.process,)
    async for heartbeat in store.shared.heartbeats():
        assert heartbeat.orphaned_impacts
        break
    assert [impact.id for impact in await store.unfinished_impacts("", 10)] == ["a"]


@on_a_database
async def test_records_of_batches_do_not_accumulate(store: PostgresStore, url: str) -> None:
    """A process drops the records of its earlier batches, and the last ones when it leaves."""
    names = [str(number) for number in range(20)]
    for name in names:
        assert await commit(store, name) == "done"
    with psycopg.connect(url, autocommit=True) as observer:
        count = "SELECT count(*) FROM fairwarning.batch"
        assert observer.execute(count).fetchone() == (1,)
        observer.execute(
            "INSERT INTO fairwarning.batch (id, process, at)"
            "VALUES (gen_random_uuid(), 'killed', now() - interval '2 days')"
        )
        await store.close()
        assert observer.execute(count).fetchone() == (1,)
        await store.open()
        assert observer.execute(count).fetchone() == (0,)


@on_a_database
async def test_an_idle_connection_that_the_server_closed_is_not_used(
    store: PostgresStore, url: str
) -> None:
    """A request after a restart of the database, or a cut by a proxy, does not fail by it."""
    assert await commit(store, "before") == "done"
    with psycopg.connect(url, autocommit=True) as observer:
        observer.execute(f"SELECT pg_terminate_backend(pid) FROM {OTHERS}".encode())
        await wait_for(observer, f"SELECT count(*) FROM {OTHERS}", 0)
    assert await committed(store, url, "before")


@on_a_database
async def test_a_request_during_the_first_heartbeat_goes_on(store: PostgresStore, url: str) -> None:
    """The listener finds the server that the request already uses."""
    async with store._connections.acquire() as connection:
        async for _heartbeat in store.shared.heartbeats():
            break
        await connection.execute("SELECT 1")


@on_a_database
async def test_a_cancelled_statement_stays_cancelled_if_its_connection_is_lost(
    store: PostgresStore, url: str
) -> None:
    """Otherwise a service whose database is gone would never stop: its tasks would go on."""
    with psycopg.connect(url, autocommit=True) as observer, locked(url, "note"):
        writing = asyncio.create_task(store.add_note_if_absent("a", "1"))
        await wait_for(observer, WAITING, 1)
        writing.cancel()
        cut(store)
        with pytest.raises(asyncio.CancelledError):
            await writing


async def cut_at_random(store: PostgresStore, random: Random, name: str) -> str:
    """Commit a batch, cut its connections a few times, and return the outcome."""
    outcome = asyncio.create_task(commit(store, name))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        await asyncio.sleep(random.random() * LONGEST_SECONDS)
        cut(store)
    return await outcome


@pytest.mark.parametrize("seed", split(range(CUTS // CUTS_PER_TEST), 1))
@on_a_database
async def test_commits_that_are_cut_at_random_are_done_or_never_land(
    store: PostgresStore, url: str, seed: int
) -> None:
    """Also while they wait for a lock, and while the store asks for the outcome."""
    random, outcomes = Random(seed), {}
    for number in range(CUTS_PER_TEST):
        name = f"s{number}"
        if random.random() < 0.5:
            with locked(url, random.choice(TABLES)):
                running = asyncio.create_task(cut_at_random(store, random, name))
                await asyncio.sleep(random.random() * 2 * LONGEST_SECONDS)
            outcomes[name] = await running
        else:
            outcomes[name] = await cut_at_random(store, random, name)
    assert set(outcomes.values()) <= {"done", "StoreFailed", "StoreUnclear"}
    for name, outcome in outcomes.items():
        if outcome != "StoreUnclear":
            assert await committed(store, url, name) == (outcome == "done"), name
