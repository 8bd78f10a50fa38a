"""Subscriptions with several processes: one process delivers each, and others take over."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from fairwarning.service.webhooks.subscription import SubscriptionState
from fairwarning.store.postgres.store import PostgresStore
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.receiver import (
    Receiver,
    ReceiverResponse,
    agree,
    in_turn,
    line_number,
    verified,
)
from tests.fixtures.waiting import on_this_machine, wait_until_async
from tests.webhooks.webhook_fleet import WebhookFleet, webhook_fleet

pytestmark = pytest.mark.spec("X1")

OTHER_SECRET = "another-secret-of-a-test"
CHANGED_SECONDS = 10.0  # five times what is promised on an idle machine
BACKLOG = 2000  # more than one page


async def two_events(first: WebhookFleet, second: WebhookFleet) -> None:
    """Cause an event through each process."""
    await first.restart("vm")
    await second.machine("vm2")
    await second.restart("vm2")


async def test_one_process_delivers_and_another_takes_over(receiver: Receiver) -> None:
    """Messages arrive in order and once; each process knows the other's subscriptions."""
    url = database_or_skip()
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
        numbers = [line_number(request) for request in receiver.requests]
        assert numbers == sorted(set(numbers))
        assert len(receiver.requests) > count >= 2
        await second.webhooks.remove("ops")


@asynccontextmanager
async def two_fleets() -> AsyncIterator[tuple[WebhookFleet, WebhookFleet]]:
    """Two processes with one database."""
    url = database_or_skip()
    async with (
        webhook_fleet(PostgresStore(url)) as first,
        webhook_fleet(PostgresStore(url)) as second,
    ):
        yield first, second


async def create_again(fleet: WebhookFleet, receiver: Receiver) -> int:
    """Create the webhook for another receiver; return the last journal line before."""
    (line,) = await fleet.fleet.store.latest_lines(1)
    await fleet.create(receiver, secret=OTHER_SECRET)
    return line.number


@pytest.mark.parametrize("remover", [0, 1])
async def test_a_webhook_that_another_process_creates_again(remover: int) -> None:
    """Every later event goes to the new receiver, with the new secret, and none to the old one."""
    with Receiver() as old, Receiver() as new:
        async with two_fleets() as fleets:
            first, second = fleets
            await first.machine("vm")
            await first.create(old)
            await first.restart("vm")
            await first.caught_up()
            await wait_until_async(lambda: second.webhooks._deliveries)
            await fleets[remover].webhooks.remove("ops")
            created = await create_again(second, new)
            await two_events(second, first)
            expected = await second.reported_lines(created)
            await wait_until_async(lambda: len(new.posts) == len(expected))
        assert new.ids == expected
        assert all(verified(post, OTHER_SECRET) for post in new.posts)
        assert len(old.posts) == 1


async def test_a_backlog_is_not_sent_to_a_removed_receiver() -> None:
    """The process that delivers stops within two seconds of the change, and follows the new one."""
    with Receiver() as old, Receiver() as new:
        async with two_fleets() as (first, second):
            await first.create(old)
            entries = await first.invent(BACKLOG)
            await wait_until_async(lambda: old.posts)
            await second.webhooks.remove("ops")
            await create_again(second, new)
            began = time.monotonic()
            deliveries = first.webhooks._deliveries
            await wait_until_async(
                lambda: [known.subscription.url for known in deliveries.values()] == [new.url]
            )
            took = time.monotonic() - began
            sent = len(old.posts)
            (entry,) = (await second.invent(1))[-1:]
            await wait_until_async(lambda: new.ids)
        assert took < on_this_machine(CHANGED_SECONDS)
        assert new.ids == [entry.number]
        assert len(old.ids) <= sent + 1, "only the message in flight may arrive"
        assert old.ids == [line.number for line in entries][: len(old.ids)]


async def test_a_test_through_another_process_resumes_a_webhook() -> None:
    """Every process shows that it is stopped, and why; nothing is lost."""
    with Receiver(in_turn(ReceiverResponse(410))) as receiver:
        async with two_fleets() as (first, second):
            await first.machine("vm")
            await first.create(receiver)
            await first.restart("vm")
            await wait_until_async(lambda: first.state() == SubscriptionState.STOPPED)
            shown = await second.status()
            assert (shown.state, shown.last_error) == ("stopped", "the receiver answered 410")
            receiver.answer = agree
            assert await second.webhooks.test("ops") == 200
            await first.caught_up()
            assert receiver.ids[1:] == await first.reported_lines()
            assert (await second.status()).state == SubscriptionState.FOLLOWING
            assert (await second.status()).cursor == (await first.status()).cursor


async def test_a_process_that_lost_the_duty_stops_at_once(receiver: Receiver) -> None:
    """It notices when it saves a cursor, and the cursor of its successor stays."""
    async with two_fleets() as (first, second):
        await first.create(receiver)
        subscription = first.webhooks._deliveries["webhook::ops"].subscription
        await wait_until_async(lambda: first.webhooks._tasks)
        async with second.fleet.store._connections.acquire() as connection:  # type: ignore[attr-defined]
            await connection.execute(
                "UPDATE duty SET holder = %s WHERE name = %s",
                (second.fleet.store.shared.process, subscription.id),  # type: ignore[union-attr]
            )
        await second.invent(3)
        numbers = await second.reported_lines()
        await wait_until_async(lambda: second.webhooks._tasks)
        await wait_until_async(lambda: not first.webhooks._tasks)
        await second.caught_up()
        stored = await first.fleet.store.get_note(subscription.cursor_note)
        assert int(stored or 0) == numbers[-1]
        assert sorted(set(receiver.ids)) == numbers


async def test_an_answer_that_cannot_be_stored_holds_up_no_webhook(receiver: Receiver) -> None:
    """IB4: a NUL in an answer is stored escaped; the cursors of other webhooks are stored."""

    def raw(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 \x00\x1b[2J\r\n\r\n")

    with Receiver(lambda _: ReceiverResponse(raw=raw)) as bad:
        async with two_fleets() as (first, second):
            await first.create(bad, "bad")
            await first.create(receiver, "good")
            await first.invent(3)
            await first.caught_up("good")
            await wait_until_async(lambda: first.state("bad") == SubscriptionState.RETRYING)
            shown, good = await second.status("bad"), await second.status("good")
    assert (shown.state, shown.last_error) == ("retrying", r"HTTP/1.1 \x00\x1b[2J")
    assert (good.state, good.cursor) == ("following", receiver.ids[-1])
