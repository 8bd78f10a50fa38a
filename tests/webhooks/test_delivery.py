"""Messages arrive: all of them, in order, at least once, whatever the receiver does meanwhile."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from fairwarning.core.commands import Cancel
from fairwarning.core.errors import NotFound, Refused
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.delivery import State
from fairwarning.service.webhooks.messages import Message
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import Entry
from tests.campaigns import split
from tests.service.rig import FickleStore, in_loop, standalone
from tests.webhooks.rig import (
    Got,
    Make,
    Naps,
    Receiver,
    Reply,
    agree,
    each_store,
    in_turn,
    town,
    until,
    verified,
)


@each_store
@in_loop
async def test_each_change_of_an_event_arrives_in_order(tmp_path: Path, make: Make) -> None:
    """Scheduled, approved, started, ended: four messages, signed, in the journal's order."""
    with Receiver() as receiver:
        async with town(make(tmp_path)) as place:
            await place.machine()
            await place.create(receiver)
            event = await place.reboot()
            await until(lambda: len(receiver.posts) == 4)
            assert receiver.ids == await place.told()
    types = [one.json["type"].rpartition(".")[2] for one in receiver.posts]
    assert types == ["scheduled", "approved", "started", "ended"]
    assert {one.json["data"]["EventId"] for one in receiver.posts} == {event}
    assert all(map(verified, receiver.posts))


@in_loop
async def test_a_cancelled_event_is_told() -> None:
    """A cancellation is a change like any other, with what is known of the event."""
    with Receiver() as receiver:
        async with town() as place:
            await place.machine()
            await place.create(receiver)
            event = await place.restart()
            await place.fleet.submit(Cancel(scope="vm", event=event))
            await until(lambda: len(receiver.posts) == 2)
    last = receiver.posts[-1].json
    assert last["type"] == "com.fairwarning.event.cancelled"
    assert last["data"]["EventStatus"] == "Cancelled"
    assert last["data"]["EventType"] == "Reboot"
    assert last["data"]["Why"] == "cancelled by operator"
    assert last["data"]["NotBefore"].endswith("GMT")


@in_loop
async def test_a_new_subscription_begins_at_the_present() -> None:
    """What happened before it was made is not sent; made again, it begins anew."""
    with Receiver() as receiver:
        async with town() as place:
            await place.machine()
            await place.reboot()
            await place.create(receiver)
            await place.webhooks.remove("ops")
            await place.reboot()
            await place.create(receiver)
            end = len(await place.fleet.store.journal())
            await place.reboot()
            await until(lambda: len(receiver.posts) == 4)
            assert receiver.ids == await place.told(after=end)


@each_store
@in_loop
async def test_a_restart_goes_on_where_it_was(tmp_path: Path, make: Make) -> None:
    """What happens while nobody sends is sent afterwards, and nothing twice after a clean stop."""
    store = make(tmp_path)
    with Receiver() as receiver:
        async with town(store) as place:
            await place.machine()
            await place.create(receiver)
            await place.reboot()
            await until(lambda: len(receiver.posts) == 4)
            await place.caught_up()
            await place.webhooks.stop()
            await place.reboot()
        async with town(store) as place:
            await until(lambda: len(receiver.ids) == 8)
            assert sorted(set(receiver.ids)) == receiver.ids == await place.told()


@each_store
@in_loop
async def test_an_answer_that_was_not_noted_is_asked_for_again(tmp_path: Path, make: Make) -> None:
    """Ended between the answer and the note: the message is sent again, and no other."""
    store = make(tmp_path)
    with Receiver() as receiver:
        receiver.answer = lambda _: Reply(raw=receiver.hang)
        async with town(store) as place:
            await place.machine()
            await place.create(receiver)
            await place.reboot()
            await until(lambda: receiver.posts)
        receiver.answer = agree
        async with town(store) as place:
            await until(lambda: len(receiver.ids) == 5)
            told = await place.told()
    assert receiver.ids == [told[0], *told]


@in_loop
async def test_failures_are_tried_again_with_longer_pauses() -> None:
    """500s and closed connections: each pause up to twice as long, never all the same, in order."""
    naps = Naps()
    broken = Reply(raw=lambda handler: handler.connection.close())
    replies = [Reply(500), broken, *[Reply(503)] * 10, Reply(200)]
    with Receiver(in_turn(*replies)) as receiver:
        async with town(outside=naps.outside()) as place:
            await place.machine()
            await place.create(receiver)
            await place.reboot()
            await place.caught_up()
            assert len(receiver.posts) == 16
            assert sorted(set(receiver.ids)) == await place.told()
            assert receiver.ids == sorted(receiver.ids)
            status = await place.status()
    assert (status.failed, status.last_error, status.state) == (12, "", "following")
    assert len(naps.taken) == 12
    for n, taken in enumerate(naps.taken):
        longest = min(2.0**n, limits.LONGEST_PAUSE_SECONDS)
        assert max(longest / 2, 1.0) <= taken <= longest
    assert len({taken / 300 for taken in naps.taken[-3:]}) == 3


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

    @in_loop
    async def story() -> None:
        naps = Naps()
        headers = {"Retry-After": asked}
        with Receiver(in_turn(Reply(503, headers), Reply(200))) as receiver:
            outside = naps.outside(wall=lambda: 1_767_960_000.0)
            async with town(outside=outside) as place:
                await place.machine()
                await place.create(receiver)
                await place.restart()
                await until(lambda: len(receiver.posts) == 2)
        assert least <= naps.taken[0] <= most

    story()


@in_loop
async def test_a_refusal_is_tried_again_more_slowly() -> None:
    """After a 4xx somebody has to mend something: from a minute on; but not after 429."""
    naps = Naps()
    replies = [Reply(429), Reply(408), Reply(403), Reply(404), Reply(200)]
    with Receiver(in_turn(*replies)) as receiver:
        async with town(outside=naps.outside()) as place:
            await place.machine()
            await place.create(receiver)
            await place.restart()
            await until(lambda: len(receiver.posts) == 5)
    assert [taken > 30 for taken in naps.taken] == [False, False, True, True]


@in_loop
async def test_a_receiver_that_is_gone_stops_it_until_it_answers_a_test() -> None:
    """410: nothing more is sent and nothing is removed; a test that goes well lets it go on."""
    with Receiver(in_turn(Reply(410))) as receiver:
        async with town() as place:
            await place.machine()
            await place.create(receiver)
            await place.reboot()
            await until(lambda: place.state() == State.STOPPED)
            await place.reboot()
            assert len(receiver.posts) == 1
            assert (await place.status()).last_error == "it answered 410"
            receiver.answer = agree
            await place.webhooks.test("ops")
            await until(lambda: len(receiver.ids) == 9)
            assert receiver.ids[1:] == await place.told()


@in_loop
async def test_a_message_is_given_up_after_a_day() -> None:
    """It is counted and shown, the journal keeps it, and the next ones go out."""
    naps = Naps()
    refuse: dict[str, int] = {}

    def answer(got: Got) -> Reply:
        first = refuse.setdefault("id", int(got.json["id"]))
        return Reply(500 if int(got.json["id"]) == first else 200)

    with Receiver(answer) as receiver:
        async with town(outside=naps.outside()) as place:
            await place.machine()
            await place.create(receiver)
            await place.reboot()
            await place.caught_up()
            status = await place.status()
    assert (status.given_up, status.delivered) == (1, 3)
    (dead,) = status.dead
    assert (dead.number, dead.error) == (refuse["id"], "it answered 500")
    assert dead.type == "com.fairwarning.event.scheduled"
    assert 24 * 3600 <= sum(naps.taken) <= 24 * 3600 + 300


@in_loop
async def test_only_the_latest_dead_letters_are_shown() -> None:
    """However many are given up, the status stays small."""
    with Receiver(lambda _: Reply(500)) as receiver:
        async with town(give_up_seconds=0) as place:
            await place.create(receiver)
            entries = await place.invent(50)
            await until(lambda: len(receiver.posts) == 50)
            await place.caught_up()
            status = await place.status()
    numbers = [one.number for one in status.dead]
    assert numbers == [one.number for one in entries[-limits.DEAD_LETTERS :]]


@in_loop
async def test_two_subscriptions_do_not_hold_each_other_up() -> None:
    """One receiver hangs, the other gets everything."""
    with Receiver() as slow, Receiver() as quick:
        slow.answer = lambda _: Reply(raw=slow.hang)
        async with town() as place:
            await place.machine()
            await place.create(slow, "slow")
            await place.create(quick, "quick")
            await place.reboot()
            await until(lambda: len(quick.posts) == 4)
            assert len(slow.posts) <= 1


@in_loop
async def test_a_subscription_can_be_removed_while_it_sends() -> None:
    """At once, however the receiver hangs; afterwards nothing more is sent."""
    with Receiver() as receiver:
        receiver.answer = lambda _: Reply(raw=receiver.hang)
        async with town() as place:
            await place.machine()
            await place.create(receiver)
            await place.reboot()
            await until(lambda: receiver.posts)
            await asyncio.wait_for(place.webhooks.remove("ops"), 5)
            await place.reboot()
            assert await place.webhooks.list() == []
            with pytest.raises(NotFound) as refusal:
                await place.webhooks.remove("ops")
            assert refusal.value.code == "UnknownWebhook"
    assert len(receiver.posts) == 1


@in_loop
async def test_a_store_that_fails_is_asked_again() -> None:
    """A cursor that could not be written is written later; the message is not sent twice."""
    store = FickleStore()
    naps = Naps()
    with Receiver() as receiver:

        def answer(_: Got) -> Reply:
            store.down.add("commit")
            return Reply()

        receiver.answer = answer
        async with town(store, naps.outside()) as place:
            await place.machine()
            await place.create(receiver)
            await place.restart()
            await until(lambda: len(naps.taken) > 3)
            assert (await place.status()).last_error == "commit does not work just now"
            receiver.answer = agree
            store.down.clear()
            kept = (await place.told())[-1]
            await until(lambda: store._notes.get("webhook:ops") == str(kept))
            assert len(receiver.posts) == 1


@in_loop
async def test_a_bug_of_ours_does_not_end_a_subscription() -> None:
    """It is logged, and the message is tried again."""
    with Receiver() as receiver:
        async with town() as place:
            await place.machine()
            await place.create(receiver)
            right = place.webhooks._changes.message

            async def wrong(_: Entry) -> Message:
                place.webhooks._changes.message = right  # type: ignore[method-assign]
                raise RuntimeError("planted")

            place.webhooks._changes.message = wrong  # type: ignore[assignment,method-assign]
            await place.restart()
            await place.caught_up()
            assert (await place.status()).last_error == ""
    assert len(receiver.posts) == 1


@in_loop
async def test_cursors_are_written_together() -> None:
    """Sixteen answers at once cost two transactions; where one fails, each tries for itself."""
    store, answering = FickleStore(), threading.Event()

    def answer(_: Got) -> Reply:
        answering.wait(20)
        return Reply()

    with Receiver(answer) as receiver:
        async with town(store) as place:
            for n in range(limits.SUBSCRIPTIONS):
                await place.create(receiver, f"w{n}")
            (entry,) = await place.invent(1)
            await until(lambda: len(receiver.posts) == limits.SUBSCRIPTIONS)
            store.hold()
            store.commits.clear()
            answering.set()
            cursors = place.webhooks._cursors
            await until(lambda: len(cursors._waiting) == limits.SUBSCRIPTIONS - 1)
            store.down.add("commit")
            store.release()
            await until(lambda: len(cursors._waiting) == limits.SUBSCRIPTIONS)
            store.down.clear()
            await until(lambda: not cursors._waiting)
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
        async with server, town() as place:
            await place.webhooks.create("ops", f"http://127.0.0.1:{port}/", handshake=False)
            entries = await place.invent(messages)
            delivery = place.webhooks._deliveries["webhook::ops"]
            most = 0
            while delivery.cursor < entries[-1].number:
                most = max(most, delivery.waiting)
                assert len(place.webhooks._changes._known) <= limits.REMEMBERED_EVENTS
                await asyncio.sleep(0.01)
            assert 0 < most <= limits.PAGE_LINES
            assert got == [one.number for one in entries]

    asyncio.run(asyncio.wait_for(story(), 120))


@in_loop
async def test_a_cursor_does_not_fall_far_behind_lines_that_are_not_sent() -> None:
    """Lines that are no messages move the cursor as well, so that a restart reads few again."""
    store = MemoryStore()
    with Receiver() as receiver:
        async with town(store) as place:
            await place.create(receiver)
            for n in range(limits.PAGE_LINES // 2 + 1):
                await place.fleet.submit(standalone(f"m{n}"))
            await until(lambda: int(store._notes.get("webhook:ops", "0")) > limits.PAGE_LINES - 1)
    assert receiver.posts == []


@pytest.mark.parametrize("form", ["cloudevents", "eventgrid"])
def test_a_test_message_arrives_or_says_why_not(form: str) -> None:
    """A ping in the subscription's form; the answer's trouble in words."""

    @in_loop
    async def story() -> None:
        with Receiver() as receiver:
            async with town() as place:
                await place.create(receiver, form=form)
                assert await place.webhooks.test("OPS") == 200
                (ping,) = receiver.posts
                told = ping.json[0] if form == "eventgrid" else ping.json
                assert "com.fairwarning.ping" in told.values()
                assert told["data"] == {"Webhook": "ops"}
                assert verified(ping)
                receiver.answer = lambda _: Reply(302, {"Location": receiver.url})
                assert await place.webhooks.test("ops") == 302
                receiver.answer = lambda _: Reply(raw=lambda one: one.connection.close())
                with pytest.raises(Refused, match="'ops' did not answer"):
                    await place.webhooks.test("ops")
                with pytest.raises(NotFound):
                    await place.webhooks.test("other")

    story()
