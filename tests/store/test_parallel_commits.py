"""Commits of several processes write at the same time, and become visible one after the other."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import psycopg
import pytest

from fairwarning.core.errors import AddressTaken, Conflict
from fairwarning.core.model import Entity, Machine, Ref, Scope, ScopeKind
from fairwarning.core.record import changed
from fairwarning.store import scripts
from fairwarning.store.postgres import schema
from fairwarning.store.postgres.rows import PostgresRows
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.store import Batch
from tests.fixtures.postgres.database import opened
from tests.fixtures.waiting import using, wait_until_async
from tests.store.batch_generator import line_about
from tests.store.conftest import migrated_database, store_and_url

WRITE = scripts.queries(schema.FOLDER)["write_batch"]
WAITING = """
SELECT count(*) FROM pg_locks
WHERE NOT granted AND locktype = 'advisory' AND classid = %s
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
FOR_PREDECESSOR, FOR_ALL = 1180789107, 1180789106
RESERVED = ("reserved_position", "reserved_line", "reserved_machine")
WRITERS = 4
COMMITS = 60  # of each writer
FEW = 7  # commits after which one fails on purpose


def scope(name: str, version: int = 1, address: str = "") -> Scope:
    """Return a scope with one machine."""
    machine = Machine(name=f"{name}-vm", address=address)
    return Scope(
        id=name, kind=ScopeKind.STANDALONE, version=version, machines={machine.name: machine}
    )


def creation(name: str, address: str = "") -> Batch:
    """Return a batch that creates a scope, with a line of the journal."""
    changes: dict[Ref, tuple[Entity | None, Entity | None]]
    changes = {(Scope, name): (None, scope(name, address=address))}
    return Batch(1.0, changes, [line_about((Scope, name), at=1.0)])


def write(connection: psycopg.Connection, batch: Batch) -> None:
    """Do all that a commit does, up to the end of the transaction."""
    values = PostgresRows(batch).encode()
    names = {"process": "p", "batch": str(uuid.uuid4()), "finished": "{}", "alone": False}
    connection.execute(WRITE.encode(), values | names)


@asynccontextmanager
async def store_and_connection() -> AsyncIterator[tuple[PostgresStore, psycopg.Connection]]:
    """A store, and a connection for the commit of another process."""
    async with store_and_url() as (store, url):
        with psycopg.connect(url) as other:
            other.execute("SET search_path TO fairwarning")
            other.commit()
            yield store, other


beside_a_transaction = using(store_and_connection, 2)


async def begin(store: PostgresStore, batch: Batch, url: str, lock: int) -> "asyncio.Task[object]":
    """Commit in the background; return once the commit waits for an advisory lock."""
    committing = asyncio.create_task(store.commit(batch))
    with psycopg.connect(url, autocommit=True) as watch:

        def waits() -> bool:
            row = watch.execute(WAITING, (lock,)).fetchone()
            return row is not None and row[0] == 1

        await wait_until_async(waits, "the commit waits")
    assert not committing.done()
    return committing


async def numbers(store: PostgresStore) -> dict[int, str]:
    """Return the lines of the journal: number and entity."""
    return {entry.number: entry.line.entity[1] for entry in await store.journal()}


@pytest.mark.spec("X1")
@beside_a_transaction
async def test_a_commit_writes_its_rows_beside_another_and_ends_after_it(
    store: PostgresStore, other: psycopg.Connection
) -> None:
    """It waits only with all its rows written, and nothing of it is visible before the other."""
    write(other, creation("a"))
    committing = await begin(store, creation("b"), other.info.dsn, FOR_PREDECESSOR)
    assert await numbers(store) == {}
    assert await store.changes_since(0, 9) == []
    other.commit()
    await committing
    assert await numbers(store) == {1: "a", 2: "b"}
    changes = [(change.position, change.scope) for change in await store.changes_since(0, 9)]
    assert changes == [(1, "a"), (2, "b")]
    assert [location.number for location in await store.list_machines(0, 9)] == [1, 2]


@pytest.mark.spec("X1")
@beside_a_transaction
async def test_a_commit_that_fails_leaves_no_gap(
    store: PostgresStore, other: psycopg.Connection
) -> None:
    """The commit after it is repeated, with the numbers of the one that failed."""
    write(other, creation("a"))
    committing = await begin(store, creation("b"), other.info.dsn, FOR_PREDECESSOR)
    other.rollback()
    await committing
    await store.commit(creation("c"))
    assert await numbers(store) == {1: "b", 2: "c"}
    assert [change.position for change in await store.changes_since(0, 9)] == [1, 2]
    assert [location.number for location in await store.list_machines(0, 9)] == [1, 2]


@pytest.mark.parametrize("ended", ["commit", "rollback"])
@beside_a_transaction
async def test_of_two_commits_that_create_one_entity_the_later_is_refused(
    store: PostgresStore, other: psycopg.Connection, ended: str
) -> None:
    """IK1: unless the earlier one fails. It waits for that alone, as long as that takes."""
    write(other, creation("a"))
    committing = await begin(store, creation("a"), other.info.dsn, FOR_ALL)
    if ended == "rollback":
        other.rollback()
        await committing
    else:
        other.commit()
        with pytest.raises(Conflict, match="has changed"):
            await committing
    assert await numbers(store) == {1: "a"}


def test_of_commits_that_create_one_entity_at_once_a_single_one_succeeds() -> None:
    """IK1: whichever comes first, and however they overlap."""

    async def run(url: str) -> None:
        stores = [PostgresStore(url) for _ in range(WRITERS)]
        for store in stores:
            await store.open()
        for turn in range(COMMITS):
            # Without machines, whose unique names would give the conflict away.
            ref, empty = (Scope, f"scope-{turn}"), changed(scope(f"scope-{turn}"), machines={})
            batch = Batch(1.0, {ref: (None, empty)}, [line_about(ref, at=1.0)])
            outcomes = await asyncio.gather(
                *(store.commit(batch) for store in stores), return_exceptions=True
            )
            refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
            assert [getattr(error, "code", error) for error in refused] == ["Stale"] * (WRITERS - 1)
        names = await numbers(stores[0])
        for store in stores:
            await store.close()
        assert names == {turn + 1: f"scope-{turn}" for turn in range(COMMITS)}

    with migrated_database() as url:
        asyncio.run(run(url))


@beside_a_transaction
async def test_of_two_commits_that_give_one_address_the_later_is_refused(
    store: PostgresStore, other: psycopg.Connection
) -> None:
    """IC8."""
    write(other, creation("a", "10.0.0.4"))
    late = creation("b", "10.0.0.4")
    committing = await begin(store, late, other.info.dsn, FOR_ALL)
    other.commit()
    with pytest.raises(AddressTaken):
        await committing
    await store.commit(creation("b", "10.0.0.5"))
    assert await numbers(store) == {1: "a", 2: "b"}


@beside_a_transaction
async def test_what_a_commit_has_read_is_compared_after_the_end_of_the_one_before(
    store: PostgresStore, other: psycopg.Connection
) -> None:
    """IK1: the one before changes an entity while a later one that has read it is at work."""
    await store.commit(creation("a"))
    write(other, Batch(2.0, {(Scope, "a"): (scope("a"), scope("a", 2))}))
    reading = Batch(2.0, creation("b").changes, read={(Scope, "a"): scope("a")})
    committing = await begin(store, reading, other.info.dsn, FOR_PREDECESSOR)
    other.commit()
    with pytest.raises(Conflict, match="'a' has changed"):
        await committing
    await store.commit(creation("b"))
    assert [change.position for change in await store.changes_since(0, 9)] == [2, 3]


@pytest.mark.parametrize("offset", [-1, 32])
@beside_a_transaction
async def test_wrong_reservations_change_nothing(
    store: PostgresStore, other: psycopg.Connection, offset: int
) -> None:
    """After a crash, or in a restored database, they need not agree with the last commit."""
    await store.commit(creation("a"))
    for name in RESERVED:
        other.execute("SELECT setval(%s, %s)", (name, 1 + offset))
    other.commit()
    await store.commit(creation("b"))
    await store.commit(creation("c"))
    assert await numbers(store) == {1: "a", 2: "b", 3: "c"}
    assert [change.position for change in await store.changes_since(0, 9)] == [1, 2, 3]


class Writer:
    """Changes its own scopes, and now and then fails after it has reserved numbers."""

    def __init__(self, store: PostgresStore, number: int) -> None:
        self.store = store
        self.lines = 0
        self._random = Random(number)
        self._number = number
        self._versions: dict[str, Scope] = {}

    async def commit_all(self) -> None:
        """Commit batches of different sizes."""
        for turn in range(COMMITS):
            if turn % FEW == self._number:
                with pytest.raises(AddressTaken):
                    await self.store.commit(creation(f"x{self._number}", "10.0.0.4"))
            else:
                await self.store.commit(self._batch())

    def _batch(self) -> Batch:
        changes: dict[Ref, tuple[Entity | None, Entity | None]] = {}
        for at in self._random.sample(range(9), self._random.randint(1, 6)):
            name = f"{self._number}-{at}"
            before = self._versions.get(name)
            after = changed(before, version=before.version + 1) if before else scope(name)
            changes[Scope, name] = before, after
            self._versions[name] = after
        lines = [line_about(ref, at=1.0) for ref in changes]
        self.lines += len(lines)
        return Batch(1.0, changes, lines)


class Reader:
    """Follows journal and change feed, always from the last number that it has seen."""

    def __init__(self, store: PostgresStore) -> None:
        self.line = 0
        self.versions: dict[str, int] = {}
        self._store = store
        self._position = 0

    async def read(self) -> None:
        """Read what is new. A number that appears later than a higher one is a gap before."""
        entries = await self._store.journal(after=self.line)
        assert [entry.number for entry in entries] == [
            self.line + n for n in range(1, len(entries) + 1)
        ]
        self.line += len(entries)
        changes = await self._store.changes_since(self._position, 1000)
        loaded = await self._store.load([(Scope, change.scope) for change in changes])
        for (_, name), entity in loaded.items():
            assert isinstance(entity, Scope)
            self.versions[name] = entity.version
        self._position = max((change.position for change in changes), default=self._position)


@pytest.mark.spec("X1")
def test_readers_miss_nothing_while_several_processes_commit() -> None:
    """IC7: numbers only grow and have no gaps, at every moment; also if commits fail."""

    async def run(url: str) -> None:
        async with opened(url) as store:
            await store.commit(creation("taken", "10.0.0.4"))
            stores = [PostgresStore(url) for _ in range(WRITERS)]
            for each in stores:
                await each.open()
            writers = [Writer(each, number) for number, each in enumerate(stores)]
            writing = asyncio.gather(*(writer.commit_all() for writer in writers))
            reader = Reader(store)
            while not writing.done():
                await reader.read()
            await writing
            await reader.read()
            for each in stores:
                await each.close()
            assert reader.line == 1 + sum(writer.lines for writer in writers)
            everything = await store.load([(Scope, name) for name in reader.versions])
            assert {ref[1]: entity and entity.version for ref, entity in everything.items()} == (
                reader.versions
            )
            known = {name for writer in writers for name in writer._versions}
            assert reader.versions.keys() == known | {"taken"}

    with migrated_database() as url:
        asyncio.run(run(url))
