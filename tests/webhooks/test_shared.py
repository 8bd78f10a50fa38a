"""Subscriptions of several processes: each is one process's to deliver, while that is alive."""

import pytest

from fairwarning.store.postgres.store import PostgresStore
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.receiver import Receiver
from tests.fixtures.waiting import run_async, wait_until_async
from tests.webhooks.webhook_fleet import WebhookFleet, webhook_fleet


async def two_events(one: WebhookFleet, other: WebhookFleet) -> None:
    """One through each process."""
    await one.restart("vm")
    await other.machine("vm2")
    await other.restart("vm2")


@pytest.mark.spec("X1")
@run_async
async def test_each_message_is_sent_by_one_process_and_taken_over_from_one_that_ends() -> None:
    """In order and once; a subscription made through one process is known to the other."""
    url = database_or_skip()
    with Receiver() as receiver:
        async with webhook_fleet(PostgresStore(url)) as other:
            async with webhook_fleet(PostgresStore(url)) as one:
                await one.machine("vm")
                await one.create(receiver)
                await wait_until_async(lambda: other.webhooks._deliveries)
                await two_events(one, other)
                await one.caught_up()
                assert not other.webhooks._tasks, "it is the other's to deliver"
                first = list(receiver.requests)
            await wait_until_async(lambda: other.webhooks._tasks)
            await other.machine("vm3")
            await other.restart("vm3")
            await other.caught_up()
            numbers = [int(got.json["id"].rpartition("-")[2]) for got in receiver.requests]
            assert numbers == sorted(set(numbers))
            assert len(receiver.requests) > len(first) >= 2
            await other.webhooks.remove("ops")


@run_async
async def test_a_subscription_that_another_process_ended_ends_here_too() -> None:
    """And nothing more is sent."""
    url = database_or_skip()
    with Receiver() as receiver:
        async with (
            webhook_fleet(PostgresStore(url)) as one,
            webhook_fleet(PostgresStore(url)) as other,
        ):
            await one.machine("vm")
            await one.create(receiver)
            await wait_until_async(lambda: other.webhooks._deliveries)
            await other.webhooks.remove("ops")
            await wait_until_async(lambda: not one.webhooks._tasks and not one.webhooks._deliveries)
