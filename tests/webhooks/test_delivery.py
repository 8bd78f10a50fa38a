"""Deliveries: all messages arrive, in order and at least once, whatever the receiver does."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from itertools import pairwise

import pytest

from fairwarning.core.errors import Conflict, NotFound, Refused, StoreDamaged
from fairwarning.service.health import PartHealth
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.messages import WebhookMessage
from fairwarning.service.webhooks.subscription import SubscriptionState
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import JournalEntry, Store
from tests.campaigns import split
from tests.fixtures.fleet import standalone
from tests.fixtures.receiver import (
    ReceivedRequest,
    Receiver,
    ReceiverResponse,
    agree,
    in_turn,
    line_number,
    verified,
)
from tests.fixtures.waiting import (
    LIMIT_SECONDS,
    OUTER_LIMIT_SECONDS,
    on_this_machine,
    wait_until_async,
)
from tests.webhooks.webhook_fleet import (
    CountedPauses,
    close_connection,
    each_store,
    subscribed,
    webhook_fleet,
)

Raw = Callable[[BaseHTTPRequestHandler], None]


@each_store
async def test_each_change_of_an_event_arrives_in_order(receiver: Receiver, store: Store) -> None:
    """Scheduled, approved, started, ended: four messages, signed, in the journal's order."""
    async with subscribed(receiver, store) as fleet:
        event = await fleet.reboot()
        await wait_until_async(lambda: len(receiver.posts) == 4)
        assert receiver.ids == await fleet.reported_lines()
    types = [post.json["type"].rpartition(".")[2] for post in receiver.posts]
    assert types == ["scheduled", "approved", "started", "ended"]
    assert {post.json["data"]["EventId"] for post in receiver.posts} == {event}
    assert all(map(verified, receiver.posts))


async def test_a_new_subscription_starts_with_new_events(receiver: Receiver) -> None:
    """Earlier events are not sent; a subscription that is created again starts anew."""
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
        assert receiver.ids == await fleet.reported_lines(after=end)


@each_store
async def test_a_restart_resumes_at_the_cursor(receiver: Receiver, store: Store) -> None:
    """Events during a stop are sent afterwards, and a clean stop repeats nothing."""
    async with subscribed(receiver, store) as fleet:
        await fleet.reboot()
        await wait_until_async(lambda: len(receiver.posts) == 4)
        await fleet.caught_up()
        await fleet.webhooks.stop()
        await fleet.reboot()
    async with webhook_fleet(store) as fleet:
        await wait_until_async(lambda: len(receiver.ids) == 8)
        assert sorted(set(receiver.ids)) == receiver.ids == await fleet.reported_lines()


async def test_failures_are_retried_with_back_off() -> None:
    """After 500s and closed connections, back-off doubles with jitter, and the order stays."""
    pauses = CountedPauses()
    broken = ReceiverResponse(raw=close_connection)
    failures = [ReceiverResponse(500), broken, *[ReceiverResponse(503)] * 10]
    with Receiver(in_turn(*failures, ReceiverResponse(200))) as receiver:
        async with subscribed(receiver, environment=pauses.environment()) as fleet:
            await fleet.reboot()
            await fleet.caught_up()
            assert len(receiver.posts) == 16
            assert sorted(set(receiver.ids)) == await fleet.reported_lines()
            assert receiver.ids == sorted(receiver.ids)
            status = await fleet.status()
    assert (status.last_error, status.state) == ("", "following")
    assert len(pauses.taken) == 12
    for n, pause in enumerate(pauses.taken):
        longest = min(2.0**n, limits.LONGEST_BACKOFF_SECONDS)
        assert max(longest / 2, 1.0) <= pause <= longest
    assert len({pause / 300 for pause in pauses.taken[-3:]}) == 3


@pytest.mark.parametrize(
    ("retry_after", "least", "most"),
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
async def test_retry_after_is_honoured_within_bounds(
    retry_after: str, least: float, most: float
) -> None:
    """Retry-After has seconds or a date; an hour is the limit, and invalid values are ignored."""
    pauses = CountedPauses()
    headers = {"Retry-After": retry_after}
    with Receiver(in_turn(ReceiverResponse(503, headers), ReceiverResponse(200))) as receiver:
        environment = pauses.environment(wall_time=lambda: 1_767_960_000.0)
        async with subscribed(receiver, environment=environment) as fleet:
            await fleet.restart()
            await wait_until_async(lambda: len(receiver.posts) == 2)
    assert least <= pauses.taken[0] <= most


async def test_a_rejection_is_retried_more_slowly() -> None:
    """After most 4xx answers the back-off starts at a minute, but not after 408 or 429."""
    pauses = CountedPauses()
    responses = [ReceiverResponse(status) for status in (429, 408, 403, 404, 200)]
    with Receiver(in_turn(*responses)) as receiver:
        async with subscribed(receiver, environment=pauses.environment()) as fleet:
            await fleet.restart()
            await wait_until_async(lambda: len(receiver.posts) == 5)
    assert [pause > 30 for pause in pauses.taken] == [False, False, True, True]


@each_store
async def test_410_stops_a_subscription_until_a_test_succeeds(store: Store) -> None:
    """Also after a restart: nothing is sent and nothing is lost until then."""
    with Receiver(in_turn(ReceiverResponse(410))) as receiver:
        async with subscribed(receiver, store) as fleet:
            await fleet.reboot()
            await wait_until_async(lambda: fleet.state() == SubscriptionState.STOPPED)
        async with webhook_fleet(store) as fleet:
            await fleet.machine("db")
            await fleet.reboot("db")
            await wait_until_async(lambda: fleet.state() == SubscriptionState.STOPPED)
            assert len(receiver.posts) == 1
            assert (await fleet.status()).last_error == "the receiver answered 410"
            receiver.answer = agree
            await fleet.webhooks.test("ops")
            await wait_until_async(lambda: len(receiver.ids) == 9)
            assert receiver.ids[1:] == await fleet.reported_lines()


async def test_failures_before_410_do_not_count_after_a_test() -> None:
    """A day begins anew with the first failure after the test: nothing is given up at once."""
    answers = in_turn(*map(ReceiverResponse, (500, 410, 200, 503, 200)))
    pauses = CountedPauses()
    with Receiver(answers) as receiver:
        async with subscribed(receiver, environment=pauses.environment()) as fleet:
            await fleet.reboot()
            await wait_until_async(lambda: fleet.state() == SubscriptionState.STOPPED)
            pauses.now += 2 * limits.GIVE_UP_SECONDS
            await fleet.webhooks.test("ops")
            await fleet.caught_up()
            assert (await fleet.status()).given_up == 0


async def test_a_message_is_given_up_after_a_day(caplog: pytest.LogCaptureFixture) -> None:
    """The message is counted and logged, stays in the journal, and the next ones are sent."""
    pauses = CountedPauses()
    refused: dict[str, int] = {}

    def answer(request: ReceivedRequest) -> ReceiverResponse:
        first = refused.setdefault("id", line_number(request))
        return ReceiverResponse(500 if line_number(request) == first else 200)

    with Receiver(answer) as receiver:
        async with subscribed(receiver, environment=pauses.environment()) as fleet:
            await fleet.reboot()
            await fleet.caught_up()
            status = await fleet.status()
    assert (status.given_up, status.delivered) == (1, 3)
    assert f"gave up on journal line {refused['id']}: the receiver answered 500" in caplog.text
    assert 24 * 3600 <= sum(pauses.taken) <= 24 * 3600 + 300


def _repeat(start: bytes, chunk: bytes) -> Raw:
    def raw(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(start)
        while True:
            handler.wfile.write(chunk)

    return raw


def _write_slowly(handler: BaseHTTPRequestHandler) -> None:
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000:
        handler.wfile.write(bytes([byte]))
        time.sleep(0.01)


BAD_RECEIVERS: dict[str, Raw | None] = {
    "hangs": None,
    "slow": _write_slowly,
    "endless body": _repeat(b"HTTP/1.1 500 No\r\n\r\n", b"x" * 65536),
    "endless headers": _repeat(b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 60_000 + b"\r\n"),
    "endless status": _repeat(b"HTTP/1.1 ", b"x" * 65536),
    "endless 100": _repeat(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize("raw", BAD_RECEIVERS.values(), ids=BAD_RECEIVERS)
async def test_a_bad_receiver_does_not_delay_another(raw: Raw | None) -> None:
    """IB4: whatever one receiver answers, and however slowly, the other gets all messages."""
    with Receiver() as bad, Receiver() as good:
        bad.answer = lambda _: ReceiverResponse(raw=raw or bad.hang)
        async with webhook_fleet() as fleet:
            await fleet.machine()
            await fleet.create(bad, "bad")
            await fleet.create(good, "good")
            await fleet.reboot()
            await fleet.caught_up("good")
            assert good.ids == await fleet.reported_lines()
            assert fleet.state("good") == "following"
            assert set(bad.ids) <= {good.ids[0]}


async def test_look_ups_that_never_end_do_not_delay_another(receiver: Receiver) -> None:
    """IB4: they block threads: a few of their own webhook, and none of another."""
    look_ups, end = [0], threading.Event()

    def resolve(host: str, _port: int) -> list[str]:
        if host == "hooks.example":
            look_ups[0] += 1
            end.wait(LIMIT_SECONDS)
        return ["127.0.0.1"]

    pauses = CountedPauses(2 * limits.THREADS)
    environment = pauses.environment(resolve=resolve, request_seconds=0.01)
    try:
        async with webhook_fleet(
            environment=environment, allow=["hooks.example", "127.0.0.1"]
        ) as fleet:
            await fleet.webhooks.create("bad", "http://hooks.example/")
            await fleet.invent(1)
            await wait_until_async(lambda: len(pauses.taken) > 2 * limits.THREADS)
            assert look_ups == [limits.THREADS_OF_ONE]
            object.__setattr__(environment, "request_seconds", 10.0)
            await fleet.create(receiver, "good")
            await fleet.invent(1)
            await fleet.caught_up("good")
    finally:
        end.set()


async def test_a_subscription_can_be_removed_while_it_sends(receiver: Receiver) -> None:
    """Removal is immediate even if the receiver hangs; nothing is sent afterwards."""
    receiver.answer = lambda _: ReceiverResponse(raw=receiver.hang)
    async with subscribed(receiver) as fleet:
        await fleet.reboot()
        await wait_until_async(lambda: receiver.posts)
        await asyncio.wait_for(fleet.webhooks.remove("ops"), on_this_machine(5))
        await fleet.reboot()
        assert await fleet.webhooks.list() == []
        with pytest.raises(NotFound) as refusal:
            await fleet.webhooks.remove("ops")
        assert refusal.value.code == "UnknownWebhook"
    assert len(receiver.posts) == 1


async def test_an_internal_error_does_not_end_a_subscription(receiver: Receiver) -> None:
    """An internal error is logged, and the message is retried."""
    async with subscribed(receiver) as fleet:
        original = fleet.webhooks._builder.message

        async def fail_once(_: JournalEntry) -> WebhookMessage:
            fleet.webhooks._builder.message = original  # type: ignore[method-assign]
            raise RuntimeError("planted")

        fleet.webhooks._builder.message = fail_once  # type: ignore[assignment,method-assign]
        await fleet.restart()
        await fleet.caught_up()
        assert (await fleet.status()).last_error == ""
    assert len(receiver.posts) == 1


class RefusingStore(MemoryStore):
    """Cannot write these notes."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()

    async def save_notes(self, notes: Mapping[str, tuple[str, str]]) -> set[str]:
        if self.refused & set(notes):
            raise Conflict("BadText", "a note cannot be stored")
        return await super().save_notes(notes)


async def test_a_note_that_cannot_be_written_holds_only_its_webhook(receiver: Receiver) -> None:
    """IB4: it says so, tries again ever more slowly, and continues without a repetition."""
    store, pauses = RefusingStore(), CountedPauses(8)
    async with webhook_fleet(store, pauses.environment()) as fleet:
        await fleet.create(receiver, "held")
        await fleet.create(receiver, "free")
        store.refused = {fleet.cursor_note("held")}
        await fleet.invent(3)
        await fleet.caught_up("free")
        await wait_until_async(lambda: len(pauses.taken) > 8)
        assert sorted(receiver.ids) == [3, 3, 4, 5]
        assert all(later > pause for pause, later in pairwise(pauses.taken[1:]))
        shown = await fleet.status("held")
        assert (shown.state, shown.last_error) == ("retrying", "a note cannot be stored")
        stored = await store.get_note(fleet.delivery("held").subscription.state_note)
        assert stored == "retrying a note cannot be stored"
        assert (await fleet.status("free")).state == "following"
        problem = "1 of 2 is failing: held: a note cannot be stored"
        assert fleet.webhooks.health() == PartHealth(name="webhooks", problem=problem)
        store.refused = set()
        pauses.release()
        await fleet.caught_up("held")
        await wait_until_async(lambda: not fleet.webhooks.health().problem)
        assert fleet.state("held") == "following"
    assert sorted(receiver.ids) == [3, 3, 4, 4, 5, 5]


async def test_nothing_is_stored_once_writes_have_stopped(receiver: Receiver) -> None:
    """IS4: no cursor either, so deliveries are held. A test needs to store nothing."""
    store = MemoryStore()
    async with webhook_fleet(store) as fleet:
        await fleet.create(receiver)
        fleet.fleet.writer.stop_writing(StoreDamaged("StoreCorrupt", "the file is damaged"))
        await fleet.invent(2)
        notes = dict(store._notes)
        await wait_until_async(lambda: "writes have stopped" in fleet.webhooks.health().problem)
        assert await fleet.webhooks.test("ops") == 200
        assert store._notes == notes
    assert len(receiver.posts) == 2


@pytest.mark.parametrize("messages", split([2 * limits.PAGE_LINES, 10_000], 1))
def test_a_backlog_is_delivered_in_bounded_memory(messages: int) -> None:
    """A long backlog arrives completely and in order; only one page is held in memory."""
    received: list[int] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        message = json.loads(await reader.readexactly(length))
        received.append(int(message["id"].partition("-")[0]))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async def check() -> None:
        server = await asyncio.start_server(receive, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, webhook_fleet() as fleet:
            await fleet.webhooks.create("ops", f"http://127.0.0.1:{port}/")
            entries = await fleet.invent(messages)
            delivery = fleet.delivery()
            highest = 0
            while delivery.cursor < entries[-1].number:
                highest = max(highest, delivery.waiting)
                assert len(fleet.webhooks._builder._announcements) <= limits.REMEMBERED_EVENTS
                await asyncio.sleep(0.01)
            assert 0 < highest <= limits.PAGE_LINES
            assert received == [entry.number for entry in entries]

    asyncio.run(asyncio.wait_for(check(), OUTER_LIMIT_SECONDS))


async def test_the_cursor_advances_over_lines_without_messages(receiver: Receiver) -> None:
    """The cursor also advances over lines without messages, so that a restart skips them."""
    store = MemoryStore()
    async with webhook_fleet(store) as fleet:
        await fleet.create(receiver)
        for n in range(limits.PAGE_LINES // 2 + 1):
            await fleet.fleet.submit(standalone(f"m{n}"))
        await wait_until_async(
            lambda: int(store._notes.get(fleet.cursor_note(), "0")) > limits.PAGE_LINES - 1
        )
    assert receiver.posts == []


async def test_a_test_message_arrives_or_its_failure_is_described(receiver: Receiver) -> None:
    """A failure is described."""
    async with webhook_fleet() as fleet:
        await fleet.create(receiver)
        assert await fleet.webhooks.test("OPS") == 200
        (ping,) = receiver.posts
        assert ping.json["type"] == "com.fairwarning.ping"
        assert ping.json["data"] == {"Webhook": "ops"}
        assert verified(ping)
        receiver.answer = lambda _: ReceiverResponse(302, {"Location": receiver.url})
        assert await fleet.webhooks.test("ops") == 302
        receiver.answer = lambda _: ReceiverResponse(raw=close_connection)
        with pytest.raises(Refused, match="'ops' did not answer"):
            await fleet.webhooks.test("ops")
        with pytest.raises(NotFound):
            await fleet.webhooks.test("other")
