"""Subscriptions with several processes: first process delivers each, and others take over."""

import pytest

from fairwarning.store.postgres.store import PostgresStore
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.receiver import Receiver
from tests.fixtures.waiting import run_async, wait_until_async
from tests.webhooks.webhook_fleet import WebhookFleet, webhook_fleet


async def two_events(first: WebhookFleet, second: WebhookFleet) -> None:
    """Cause an event through each process."""
    await first.restart("vm")
    await second.machine("vm2")
    await second.restart("vm2")


@pytest.mark.spec("X1")
@run_async
async def test_one_process_delivers_and_another_takes_over() -> None:
    """Messages arrive in order and once; each process knows the other's subscriptions."""
    url = database_or_skip()
    with Receiver() as receiver:
        async with webhook_fleet(PostgresStore(url)) as second:
            async with webhook_fleet(PostgresStore(url)) as first:
                await first.machine("vm")
                await first.create(receiver)
                await wait_until_async(lambda: second.webhooks._deliveries)
                await two_events(first, second)
                await first.caught_up()
                assert not second.webhooks._tasks, "the first process delivers"
                count = len(receiver.requests)
            await wait_until_async(lambda: second.webhooks._tasks)
            await second.machine("vm3")
            await second.restart("vm3")
            await second.caught_up()
            numbers = [int(request.json["id"].rpartition("-")[2]) for request in receiver.requests]
            assert numbers == sorted(set(numbers))
            assert len(receiver.requests) > count >= 2
            await second.webhooks.remove("ops")


@run_async
async def test_a_removal_by_another_process_ends_the_delivery() -> None:
    """A subscription that another process removes also ends here."""
    url = database_or_skip()
    with Receiver() as receiver:
        async with (
            webhook_fleet(PostgresStore(url)) as first,
            webhook_fleet(PostgresStore(url)) as second,
        ):
            await first.machine("vm")
            await first.create(receiver)
            await wait_until_async(lambda: second.webhooks._deliveries)
            await second.webhooks.remove("ops")
            await wait_until_async(
                lambda: not first.webhooks._tasks and not first.webhooks._deliveries
            )
