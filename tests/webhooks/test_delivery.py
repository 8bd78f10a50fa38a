"""Messages arrive: all of them, in order, at least once, whatever the receiver does meanwhile."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from fairwarning.core.commands import Cancel
from fairwarning.core.errors import NotFound, Refused
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.delivery import SubscriptionState
from fairwarning.service.webhooks.messages import WebhookMessage
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import JournalEntry
from tests.campaigns import split
from tests.fixtures.controlled_fleet import ControlledStore
from tests.fixtures.fleet import standalone
from tests.fixtures.receiver import (
    ReceivedRequest,
    Receiver,
    ReceiverResponse,
    agree,
    in_turn,
    verified,
)
from tests.fixtures.waiting import LIMIT_SECONDS, OUTER_LIMIT_SECONDS, run_async, wait_until_async
from tests.webhooks.webhook_fleet import CountedPauses, Make, each_store, webhook_fleet


@each_store
@run_async
async def test_each_change_of_an_event_arrives_in_order(tmp_path: Path, make: Make) -> None:
    """Scheduled, approved, started, ended: four messages, signed, in the journal's order."""
    with Receiver() as receiver:
        async with webhook_fleet(make(tmp_path)) as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            event = await fleet.reboot()
            await wait_until_async(lambda: len(receiver.posts) == 4)
            assert receiver.ids == await fleet.told()
    types = [one.json["type"].rpartition(".")[2] for one in receiver.posts]
    assert types == ["scheduled", "approved", "started", "ended"]
    assert {one.json["data"]["EventId"] for one in receiver.posts} == {event}
    assert all(map(verified, receiver.posts))


@run_async
async def test_a_cancelled_event_is_told() -> None:
    """A cancellation is a change like any other, with what is known of the event."""
    with Receiver() as receiver:
        async with webhook_fleet() as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            event = await fleet.restart()
            await fleet.fleet.submit(Cancel(scope="vm", event=event))
            await wait_until_async(lambda: len(receiver.posts) == 2)
    last = receiver.posts[-1].json
    assert last["type"] == "com.fairwarning.event.cancelled"
    assert last["data"]["EventStatus"] == "Cancelled"
    assert last["data"]["EventType"] == "Reboot"
    assert last["data"]["Why"] == "cancelled by operator"
    assert last["data"]["NotBefore"].endswith("GMT")


@run_async
async def test_a_new_subscription_begins_at_the_present() -> None:
    """What happened before it was made is not sent; made again, it begins anew."""
    with Receiver() as receiver:
        async with webhook_fleet() as fleet:
            await fleet.machine()
            await fleet.reboot()
            await fleet.create(receiver)
            await fleet.webhooks.remove("ops")
            await fleet.reboot()
            await fleet.create(receiver)
            end = len(await fleet.fleet.store.journal())
            await fleet.reboot()
            await wait_until_async(lambda: len(receiver.posts) == 4)
            assert receiver.ids == await fleet.told(after=end)


@each_store
@run_async
async def test_a_restart_goes_on_where_it_was(tmp_path: Path, make: Make) -> None:
    """What happens while nobody sends is sent afterwards, and nothing twice after a clean stop."""
    store = make(tmp_path)
    with Receiver() as receiver:
        async with webhook_fleet(store) as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            await fleet.reboot()
            await wait_until_async(lambda: len(receiver.posts) == 4)
            await fleet.caught_up()
            await fleet.webhooks.stop()
            await fleet.reboot()
        async with webhook_fleet(store) as fleet:
            await wait_until_async(lambda: len(receiver.ids) == 8)
            assert sorted(set(receiver.ids)) == receiver.ids == await fleet.told()


@each_store
@run_async
async def test_an_answer_that_was_not_noted_is_asked_for_again(tmp_path: Path, make: Make) -> None:
    """Ended between the answer and the note: the message is sent again, and no other."""
    store = make(tmp_path)
    with Receiver() as receiver:
        receiver.answer = lambda _: ReceiverResponse(raw=receiver.hang)
        async with webhook_fleet(store) as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            await fleet.reboot()
            await wait_until_async(lambda: receiver.posts)
        receiver.answer = agree
        async with webhook_fleet(store) as fleet:
            await wait_until_async(lambda: len(receiver.ids) == 5)
            told = await fleet.told()
    assert receiver.ids == [told[0], *told]


@run_async
async def test_failures_are_tried_again_with_longer_pauses() -> None:
    """500s and closed connections: each pause up to twice as long, never all the same, in order."""
    pauses = CountedPauses()
    broken = ReceiverResponse(raw=lambda handler: handler.connection.close())
    replies = [ReceiverResponse(500), broken, *[ReceiverResponse(503)] * 10, ReceiverResponse(200)]
    with Receiver(in_turn(*replies)) as receiver:
        async with webhook_fleet(outside=pauses.outside()) as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            await fleet.reboot()
            await fleet.caught_up()
            assert len(receiver.posts) == 16
            assert sorted(set(receiver.ids)) == await fleet.told()
            assert receiver.ids == sorted(receiver.ids)
            status = await fleet.status()
    assert (status.failed, status.last_error, status.state) == (12, "", "following")
    assert len(pauses.taken) == 12
    for n, taken in enumerate(pauses.taken):
        longest = min(2.0**n, limits.LONGEST_PAUSE_SECONDS)
        assert max(longest / 2, 1.0) <= taken <= longest
    assert len({taken / 300 for taken in pauses.taken[-3:]}) == 3


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [
        ("120", 120, 120),
        ("999999999999", 3600, 3600),
        ("0", 1, 1),
        ("-5", 1, 1),
        ("soon", 1, 1),
        ("Fri, 09 Jan 2026 12:05:00 GMT", 300, 300),
        ("Fri, 09 Jan 1970 12:05:00 GMT", 1, 1),
        ("²", 1, 1),
    ],
)
def test_retry_after_is_honoured_within_bounds(asked: str, least: float, most: float) -> None:
    """Seconds or a date, at most an hour; nonsense is as if nothing was said."""

    @run_async
    async def story() -> None:
        pauses = CountedPauses()
        headers = {"Retry-After": asked}
        with Receiver(in_turn(ReceiverResponse(503, headers), ReceiverResponse(200))) as receiver:
            outside = pauses.outside(wall=lambda: 1_767_960_000.0)
            async with webhook_fleet(outside=outside) as fleet:
                await fleet.machine()
                await fleet.create(receiver)
                await fleet.restart()
                await wait_until_async(lambda: len(receiver.posts) == 2)
        assert least <= pauses.taken[0] <= most

    story()


@run_async
async def test_a_refusal_is_tried_again_more_slowly() -> None:
    """After a 4xx somebody has to mend something: from a minute on; but not after 429."""
    pauses = CountedPauses()
    replies = [
        ReceiverResponse(429),
        ReceiverResponse(408),
        ReceiverResponse(403),
        ReceiverResponse(404),
        ReceiverResponse(200),
    ]
    with Receiver(in_turn(*replies)) as receiver:
        async with webhook_fleet(outside=pauses.outside()) as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            await fleet.restart()
            await wait_until_async(lambda: len(receiver.posts) == 5)
    assert [taken > 30 for taken in pauses.taken] == [False, False, True, True]


@run_async
async def test_a_receiver_that_is_gone_stops_it_until_it_answers_a_test() -> None:
    """410: nothing more is sent and nothing is removed; a test that goes well lets it go on."""
    with Receiver(in_turn(ReceiverResponse(410))) as receiver:
        async with webhook_fleet() as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            await fleet.reboot()
            await wait_until_async(lambda: fleet.state() == SubscriptionState.STOPPED)
            await fleet.reboot()
            assert len(receiver.posts) == 1
            assert (await fleet.status()).last_error == "it answered 410"
            receiver.answer = agree
            await fleet.webhooks.test("ops")
            await wait_until_async(lambda: len(receiver.ids) == 9)
            assert receiver.ids[1:] == await fleet.told()


@run_async
async def test_a_message_is_given_up_after_a_day() -> None:
    """It is counted and shown, the journal keeps it, and the next ones go out."""
    pauses = CountedPauses()
    refuse: dict[str, int] = {}

    def answer(got: ReceivedRequest) -> ReceiverResponse:
        first = refuse.setdefault("id", int(got.json["id"]))
        return ReceiverResponse(500 if int(got.json["id"]) == first else 200)

    with Receiver(answer) as receiver:
        async with webhook_fleet(outside=pauses.outside()) as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            await fleet.reboot()
            await fleet.caught_up()
            status = await fleet.status()
    assert (status.given_up, status.delivered) == (1, 3)
    (dead,) = status.dead
    assert (dead.number, dead.error) == (refuse["id"], "it answered 500")
    assert dead.type == "com.fairwarning.event.scheduled"
    assert 24 * 3600 <= sum(pauses.taken) <= 24 * 3600 + 300


@run_async
async def test_only_the_latest_dead_letters_are_shown() -> None:
    """However many are given up, the status stays small."""
    with Receiver(lambda _: ReceiverResponse(500)) as receiver:
        async with webhook_fleet(give_up_seconds=0) as fleet:
            await fleet.create(receiver)
            entries = await fleet.invent(50)
            await wait_until_async(lambda: len(receiver.posts) == 50)
            await fleet.caught_up()
            status = await fleet.status()
    numbers = [one.number for one in status.dead]
    assert numbers == [one.number for one in entries[-limits.DEAD_LETTERS :]]


@run_async
async def test_two_subscriptions_do_not_hold_each_other_up() -> None:
    """One receiver hangs, the other gets everything."""
    with Receiver() as slow, Receiver() as quick:
        slow.answer = lambda _: ReceiverResponse(raw=slow.hang)
        async with webhook_fleet() as fleet:
            await fleet.machine()
            await fleet.create(slow, "slow")
            await fleet.create(quick, "quick")
            await fleet.reboot()
            await wait_until_async(lambda: len(quick.posts) == 4)
            assert len(slow.posts) <= 1


@run_async
async def test_a_subscription_can_be_removed_while_it_sends() -> None:
    """At once, however the receiver hangs; afterwards nothing more is sent."""
    with Receiver() as receiver:
        receiver.answer = lambda _: ReceiverResponse(raw=receiver.hang)
        async with webhook_fleet() as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            await fleet.reboot()
            await wait_until_async(lambda: receiver.posts)
            await asyncio.wait_for(fleet.webhooks.remove("ops"), 5)
            await fleet.reboot()
            assert await fleet.webhooks.list() == []
            with pytest.raises(NotFound) as refusal:
                await fleet.webhooks.remove("ops")
            assert refusal.value.code == "UnknownWebhook"
    assert len(receiver.posts) == 1


@run_async
async def test_a_store_that_fails_is_asked_again() -> None:
    """A cursor that could not be written is written later; the message is not sent twice."""
    store = ControlledStore()
    pauses = CountedPauses()
    with Receiver() as receiver:

        def answer(_: ReceivedRequest) -> ReceiverResponse:
            store.down.add("commit")
            return ReceiverResponse()

        receiver.answer = answer
        async with webhook_fleet(store, pauses.outside()) as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            await fleet.restart()
            await wait_until_async(lambda: len(pauses.taken) > 3)
            assert (await fleet.status()).last_error == "commit does not work just now"
            receiver.answer = agree
            store.down.clear()
            kept = (await fleet.told())[-1]
            await wait_until_async(lambda: store._notes.get("webhook:ops") == str(kept))
            assert len(receiver.posts) == 1


@run_async
async def test_a_bug_of_ours_does_not_end_a_subscription() -> None:
    """It is logged, and the message is tried again."""
    with Receiver() as receiver:
        async with webhook_fleet() as fleet:
            await fleet.machine()
            await fleet.create(receiver)
            right = fleet.webhooks._changes.message

            async def wrong(_: JournalEntry) -> WebhookMessage:
                fleet.webhooks._changes.message = right  # type: ignore[method-assign]
                raise RuntimeError("planted")

            fleet.webhooks._changes.message = wrong  # type: ignore[assignment,method-assign]
            await fleet.restart()
            await fleet.caught_up()
            assert (await fleet.status()).last_error == ""
    assert len(receiver.posts) == 1


@run_async
async def test_cursors_are_written_together() -> None:
    """Sixteen answers at once cost two transactions; where one fails, each tries for itself."""
    store, answering = ControlledStore(), threading.Event()

    def answer(_: ReceivedRequest) -> ReceiverResponse:
        answering.wait(LIMIT_SECONDS)
        return ReceiverResponse()

    with Receiver(answer) as receiver:
        async with webhook_fleet(store) as fleet:
            for n in range(limits.SUBSCRIPTIONS):
                await fleet.create(receiver, f"w{n}")
            (entry,) = await fleet.invent(1)
            await wait_until_async(lambda: len(receiver.posts) == limits.SUBSCRIPTIONS)
            store.hold()
            store.commits.clear()
            answering.set()
            cursors = fleet.webhooks._cursors
            await wait_until_async(lambda: len(cursors._waiting) == limits.SUBSCRIPTIONS - 1)
            store.down.add("commit")
            store.release()
            await wait_until_async(lambda: len(cursors._waiting) == limits.SUBSCRIPTIONS)
            store.down.clear()
            await wait_until_async(lambda: not cursors._waiting)
            assert len(store.commits) <= 2
            kept = [store._notes[f"webhook:w{n}"] for n in range(limits.SUBSCRIPTIONS)]
    assert set(kept) == {str(entry.number)}
    assert len(receiver.posts) == limits.SUBSCRIPTIONS


@pytest.mark.parametrize("messages", split([2 * limits.PAGE_LINES, 10_000], 1))
def test_ten_thousand_messages_are_drained_in_bounded_memory(messages: int) -> None:
    """A long backlog arrives whole and in order; only a page of it is ever held."""
    got: list[int] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        got.append(int(json.loads(await reader.readexactly(length))["id"]))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(receive, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, webhook_fleet() as fleet:
            await fleet.webhooks.create("ops", f"http://127.0.0.1:{port}/", handshake=False)
            entries = await fleet.invent(messages)
            delivery = fleet.webhooks._deliveries["webhook::ops"]
            most = 0
            while delivery.cursor < entries[-1].number:
                most = max(most, delivery.waiting)
                assert len(fleet.webhooks._changes._announcements) <= limits.REMEMBERED_EVENTS
                await asyncio.sleep(0.01)
            assert 0 < most <= limits.PAGE_LINES
            assert got == [one.number for one in entries]

    asyncio.run(asyncio.wait_for(story(), OUTER_LIMIT_SECONDS))


@run_async
async def test_a_cursor_does_not_fall_far_behind_lines_that_are_not_sent() -> None:
    """Lines that are no messages move the cursor as well, so that a restart reads few again."""
    store = MemoryStore()
    with Receiver() as receiver:
        async with webhook_fleet(store) as fleet:
            await fleet.create(receiver)
            for n in range(limits.PAGE_LINES // 2 + 1):
                await fleet.fleet.submit(standalone(f"m{n}"))
            await wait_until_async(
                lambda: int(store._notes.get("webhook:ops", "0")) > limits.PAGE_LINES - 1
            )
    assert receiver.posts == []


@pytest.mark.parametrize("form", ["cloudevents", "eventgrid"])
def test_a_test_message_arrives_or_says_why_not(form: str) -> None:
    """A ping in the subscription's form; the answer's trouble in words."""

    @run_async
    async def story() -> None:
        with Receiver() as receiver:
            async with webhook_fleet() as fleet:
                await fleet.create(receiver, form=form)
                assert await fleet.webhooks.test("OPS") == 200
                (ping,) = receiver.posts
                told = ping.json[0] if form == "eventgrid" else ping.json
                assert "com.fairwarning.ping" in told.values()
                assert told["data"] == {"Webhook": "ops"}
                assert verified(ping)
                receiver.answer = lambda _: ReceiverResponse(302, {"Location": receiver.url})
                assert await fleet.webhooks.test("ops") == 302
                receiver.answer = lambda _: ReceiverResponse(raw=lambda one: one.connection.close())
                with pytest.raises(Refused, match="'ops' did not answer"):
                    await fleet.webhooks.test("ops")
                with pytest.raises(NotFound):
                    await fleet.webhooks.test("other")

    story()
