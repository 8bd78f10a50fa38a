"""Processes on one database: each learns about the changes and the retention of the others."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec
import psycopg
import pytest

from fairwarning.core.commands import Deallocate, DropOperation, Start
from fairwarning.core.model import Operation, OperationStatus, Ref, Scope, ScopeKind
from fairwarning.core.record import changed
from fairwarning.service.config.settings import JournalSettings, OperationSettings
from fairwarning.service.documents import DocumentCache
from fairwarning.service.fleet import Fleet
from fairwarning.service.following import ChangeFollower
from fairwarning.service.retention import Retention
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.store import Batch
from tests.bench.fleets import serving
from tests.fixtures.fleet import standalone
from tests.fixtures.postgres.database import migrated_database_or_skip, opened
from tests.fixtures.waiting import wait_until_async
from tests.webhooks.webhook_fleet import InstantDriver

REF: Ref = (Scope, "vm")
CREATED = Scope(id="vm", kind=ScopeKind.STANDALONE, incarnation=1, version=1)


class FollowingProcess:
    """The document of a scope in a process that follows a database."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.documents = DocumentCache(self._load)
        self.follower = ChangeFollower(
            store, store.shared, self.documents, lambda: None, synchronize=lambda _: None
        )

    async def _load(self, names: Sequence[str]) -> dict[str, Scope]:
        found = await self.store.load([(Scope, name) for name in names])
        return {name: scope for (_, name), scope in found.items() if isinstance(scope, Scope)}

    async def catch_up(self, position: int) -> None:
        """Wait for a heartbeat of this position or a later one, and apply its changes."""
        await wait_until_async(lambda: self._heard(position))
        await self.follower.catch_up(self.documents.publish)

    def _heard(self, position: int) -> bool:
        heartbeat = self.follower._heartbeat
        return heartbeat is not None and heartbeat.position >= position


@asynccontextmanager
async def following(store: PostgresStore) -> AsyncIterator[FollowingProcess]:
    """A process that receives heartbeats."""
    process = FollowingProcess(store)
    heartbeats = asyncio.create_task(process.follower.run())
    try:
        yield process
    finally:
        heartbeats.cancel()
        await asyncio.wait([heartbeats])


@pytest.mark.spec("X2")
async def test_a_suspended_process_learns_about_removals_that_retention_has_dropped() -> None:
    """The change feed no longer has the removal, so the process reads its documents again."""
    url = migrated_database_or_skip()
    async with opened(url) as first, opened(url) as second, following(second) as process:
        await first.commit(Batch(1.0, {REF: (None, CREATED)}))
        published = await process.documents.fetch("vm")
        await process.catch_up(await first.position())
        assert published.scope == CREATED
        await first.commit(Batch(2.0, {REF: (CREATED, None)}))
        position = await first.position()
        assert await first.drop_tombstones(position) == 1
        assert await first.changes_since(0, 9) == []
        await first.commit(Batch(3.0, {(Scope, "db"): (None, CREATED)}))
        await process.catch_up(position + 1)
        assert published.scope is None


@pytest.mark.spec("X7")
async def test_a_scope_that_cannot_be_read_holds_up_no_other() -> None:
    """The others are published, and polls stay fresh: one row stops no tenant (IB1).

    Its own polls fail until it can be read: nobody is shown what another process has changed.
    """
    url = migrated_database_or_skip()
    refs: list[Ref] = [(Scope, name) for name in ("a", "bad", "c")]
    async with opened(url) as first, opened(url) as second, following(second) as process:
        created = {ref: changed(CREATED, id=ref[1]) for ref in refs}
        await first.commit(Batch(1.0, {ref: (None, created[ref]) for ref in refs}))
        published = [await process.documents.fetch(name) for _, name in refs]
        await process.catch_up(await first.position())
        newer = {ref: changed(created[ref], version=2) for ref in refs}
        await first.commit(Batch(2.0, {ref: (created[ref], newer[ref]) for ref in refs}))
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE fairwarning.entity SET body = '{' WHERE id = 'bad'")
        await process.catch_up(await first.position())
        shown = dict(zip(refs, [each.scope for each in published], strict=True))
        assert shown == {**newer, (Scope, "bad"): None}
        assert not process.documents.is_stale()
        with pytest.raises(msgspec.DecodeError):
            await process.documents.fetch("bad")


def process(url: str) -> AbstractAsyncContextManager[Fleet]:
    """The fleet of one process."""
    return serving(PostgresStore(url), InstantDriver())


async def ended(fleet: Fleet, name: str) -> Operation:
    """Wait until an operation has ended."""
    while True:
        operation = await fleet.reader.read(Operation, name)
        if operation and operation.status is not OperationStatus.RUNNING:
            return operation
        await asyncio.sleep(0.01)


@pytest.mark.spec("X1")
async def test_a_key_that_one_process_dropped_is_new_to_the_others() -> None:
    """They had the operation in memory."""
    url = migrated_database_or_skip()
    async with (
        process(url) as first,
        process(url) as second,
    ):
        await first.submit(standalone("vm"))
        deallocate = Deallocate(scope="vm", operation="key", machines=("vm",))
        await second.submit(deallocate)
        before = await ended(second, "key")
        repeated = await second.submit(deallocate)
        assert repeated == before
        await first.submit(DropOperation(operation="key", before=first.clock.now() + 1))
        assert await second.reader.read(Operation, "key") is None
        again = await second.submit(Start(scope="vm", operation="key", machines=("vm",)))
        assert again is not None
        assert (again.kind, (await ended(first, "key")).kind) == ("Start", "Start")


def retention(fleet: Fleet) -> Retention:
    """The retention of a process."""
    return Retention(fleet, JournalSettings(keep_days=1), OperationSettings(keep_days=1))
