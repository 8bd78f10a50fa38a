"""Retention by one of several processes holds for all of them."""

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from fairwarning.core.commands import Deallocate, DropOperation, Start
from fairwarning.core.model import Operation, OperationStatus
from fairwarning.service.config.settings import JournalSettings, OperationSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.retention import Retention
from fairwarning.store.postgres.store import PostgresStore
from tests.bench.fleets import serving
from tests.fixtures.fleet import standalone
from tests.fixtures.postgres.database import migrated_database_or_skip
from tests.webhooks.webhook_fleet import InstantDriver


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


@pytest.mark.spec("X1")
async def test_one_process_has_the_duty() -> None:
    """The others drop nothing while it runs, and one of them takes over when it has ended."""
    url = migrated_database_or_skip()
    async with process(url) as second:
        async with process(url) as first:
            for fleet in (first, second):
                await retention(fleet).drop_old()
            assert await first.store.claim_duty("journal")
            assert not await second.store.claim_duty("journal")
        await retention(second).drop_old()
        assert await second.store.claim_duty("journal")


def retention(fleet: Fleet) -> Retention:
    """The retention of a process."""
    return Retention(fleet, JournalSettings(keep_days=1), OperationSettings(keep_days=1))
