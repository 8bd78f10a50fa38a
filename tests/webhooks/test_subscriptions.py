"""Subscriptions: validation, persistence, secrets, and the retention of the journal."""

import logging

import pytest

from fairwarning.core.commands import Write
from fairwarning.core.errors import Conflict, NotFound, Refused
from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.cursors import drop_orphaned_cursors
from fairwarning.service.webhooks.subscription import read
from fairwarning.store.store import Store
from tests.fixtures.fleet import NOON
from tests.fixtures.receiver import Receiver, ReceiverResponse, verified
from tests.fixtures.waiting import wait_until_async
from tests.webhooks.webhook_fleet import CountedPauses, each_store, subscribed, webhook_fleet


@pytest.mark.parametrize(
    ("invalid", "code"),
    [
        ({"name": ""}, "BadWebhookName"),
        ({"name": "a" * 61}, "BadWebhookName"),
        ({"name": "a b"}, "BadWebhookName"),
        ({"name": "a/b"}, "BadWebhookName"),
        ({"name": ".."}, "BadWebhookName"),
        ({"name": "a\n"}, "BadWebhookName"),
        ({"name": "ä"}, "BadWebhookName"),
        ({"secret": ""}, "BadWebhookSecret"),
        ({"secret": "x" * 15}, "BadWebhookSecret"),
        ({"secret": "x" * 257}, "BadWebhookSecret"),
        ({"secret": "a-secret-with-a-space "}, "BadWebhookSecret"),
        ({"secret": "a-secret-with-a-newline\n"}, "BadWebhookSecret"),
        ({"url": "https://elsewhere.example/"}, "TargetNotAllowed"),
        ({"url": "nonsense"}, "BadUrl"),
    ],
)
async def test_an_invalid_subscription_is_refused(
    receiver: Receiver, invalid: dict[str, str], code: str
) -> None:
    """Invalid settings are refused; nothing is stored, and no request is sent."""
    async with webhook_fleet() as fleet:
        settings = {"name": "ops", "url": receiver.url} | invalid
        with pytest.raises(Refused) as refusal:
            await fleet.webhooks.create(**settings)
        assert refusal.value.code == code
        assert "secret-with" not in str(refusal.value)
        assert await fleet.webhooks.list() == []
    assert receiver.requests == []


async def test_names_are_case_insensitive(receiver: Receiver) -> None:
    """A second subscription of the same name is refused before any request."""
    async with webhook_fleet() as fleet:
        await fleet.create(receiver, "Ops")
        with pytest.raises(Conflict) as refusal:
            await fleet.webhooks.create("oPS", receiver.url)
        assert refusal.value.code == "WebhookExists"
        assert receiver.requests == []
        await fleet.webhooks.remove("OPS")
        await fleet.create(receiver, "oPS")
        assert [status.name for status in await fleet.webhooks.list()] == ["oPS"]


async def test_at_most_sixteen_subscriptions(receiver: Receiver) -> None:
    """Beyond sixteen subscriptions, one must be removed first."""
    async with webhook_fleet() as fleet:
        for n in range(limits.SUBSCRIPTIONS):
            await fleet.create(receiver, f"w{n}")
        with pytest.raises(Conflict) as refusal:
            await fleet.create(receiver, "more")
        assert refusal.value.code == "TooManyWebhooks"
        await fleet.webhooks.remove("w7")
        await fleet.create(receiver, "more")
        await fleet.machine()
        await fleet.restart()
        await wait_until_async(lambda: len(receiver.posts) == limits.SUBSCRIPTIONS)


@each_store
async def test_subscriptions_survive_a_restart(receiver: Receiver, store: Store) -> None:
    """After a restart subscriptions exist, except those that were removed."""
    async with webhook_fleet(store) as fleet:
        await fleet.create(receiver, "stays")
        await fleet.create(receiver, "goes")
        await fleet.webhooks.remove("goes")
    async with webhook_fleet(store) as fleet:
        (status,) = await fleet.webhooks.list()
        assert status.name == "stays"
        assert status.url == f"http://127.0.0.1:{receiver.port}"
        with pytest.raises(NotFound):
            await fleet.webhooks.remove("goes")


async def test_a_secret_is_shown_once() -> None:
    """No later response, text or log contains it, or the path of the URL, which may be a key."""
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(handler.format(record))  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        with Receiver(lambda _: ReceiverResponse(500)) as receiver:
            async with webhook_fleet(environment=CountedPauses(6).environment()) as fleet:
                first = await fleet.webhooks.create("a", receiver.url)
                second = await fleet.webhooks.create("b", receiver.url)
                await fleet.machine()
                await fleet.reboot()
                await wait_until_async(lambda: len(receiver.posts) == 8)
                assert fleet.webhooks.health().problem
                shown = [
                    repr(await fleet.webhooks.list()),
                    repr(fleet.webhooks.metrics()),
                    repr(fleet.webhooks.health()),
                    repr(first),
                    *map(repr, await fleet.fleet.store.journal()),
                    *records,
                    *(str(request.headers) + str(request.body) for request in receiver.requests),
                ]
                resources = await fleet.fleet.reader.resources("webhook:", "webhook:", 9)
    finally:
        logging.getLogger().removeHandler(handler)
    assert first.secret != second.secret
    assert len(first.secret) >= 40
    assert records
    hidden = (first.secret, second.secret, "/hook?from=test")
    assert not any(text in part for text in hidden for part in shown)
    stored = read(resources[0])
    assert stored.secret == first.secret
    assert first.secret not in repr(stored)


@pytest.mark.parametrize("secret", ["correct horse battery staple", "x" * 16, "~" * 256])
async def test_a_chosen_secret(receiver: Receiver, secret: str) -> None:
    """A chosen secret of 16 to 256 printable characters is used, with spaces inside."""
    async with webhook_fleet() as fleet:
        await fleet.create(receiver, secret=secret)
        await fleet.webhooks.test("ops")
    assert verified(receiver.posts[0], secret)


async def test_an_undecodable_subscription_can_be_removed(receiver: Receiver) -> None:
    """A subscription that cannot be decoded prevents neither the start nor other deliveries."""
    async with webhook_fleet() as fleet:
        await fleet.create(receiver, "good")
        await fleet.create(receiver, "bad")
        await fleet.webhooks.stop()
        (bad, _) = await fleet.fleet.reader.resources("webhook:", "webhook:", 9)
        assert bad.name == "bad"
        await fleet.fleet.submit(Write(resource=bad.id, name="bad", body="{}"))
        store = fleet.fleet.store
        await fleet.fleet.stop()
        async with webhook_fleet(store) as later:
            assert [status.name for status in await later.webhooks.list()] == ["good"]
            with pytest.raises(Conflict):
                await later.create(receiver, "bad")
            with pytest.raises(Conflict, match="remove it"):
                await later.webhooks.test("bad")
            await later.webhooks.remove("bad")
            await later.create(receiver, "bad")
        await fleet.fleet.start()


async def test_figures() -> None:
    """The metrics count delivered, failed, dropped and waiting messages by webhook."""
    pauses = CountedPauses(1)
    with Receiver() as good, Receiver(lambda _: ReceiverResponse(500)) as bad:
        async with webhook_fleet(environment=pauses.environment()) as fleet:
            await fleet.create(good, "good")
            await fleet.create(bad, "bad")
            await fleet.machine()
            await fleet.reboot()
            await fleet.caught_up("good")
            await wait_until_async(lambda: len(pauses.taken) == 2)
            metrics = {metric.name: metric for metric in fleet.webhooks.metrics()}
    assert metrics["fairwarning_webhook_delivered"].values == {"good": 4, "bad": 0}
    assert metrics["fairwarning_webhook_failed"].values == {"good": 0, "bad": 2}
    assert metrics["fairwarning_webhook_given_up"].values == {"good": 0, "bad": 0}
    waiting = metrics["fairwarning_webhook_waiting"]
    assert (waiting.gauge, waiting.values["good"], waiting.values["bad"] > 0) == (True, 0, True)


# --- Retention of the journal: no webhook depends on a line that was dropped ---


async def drop_all_lines(store: Store) -> None:
    """Drop the whole journal, as retention does once all lines are old."""
    while await store.drop_old_lines(NOON + 1e9):
        pass


@pytest.mark.parametrize("reboots", [0, 1])  # a webhook has no cursor before its first message
@each_store
async def test_a_webhook_continues_when_its_first_line_is_gone(
    receiver: Receiver, store: Store, reboots: int
) -> None:
    """After retention and a restart, new messages arrive and old ones are not repeated."""
    async with subscribed(receiver, store) as fleet:
        for _ in range(reboots):
            await fleet.reboot()
            await fleet.caught_up()
        delivered = list(receiver.ids)
        await drop_all_lines(store)
    async with webhook_fleet(store) as fleet:
        await fleet.machine("db")
        await fleet.reboot("db")
        await fleet.caught_up()
        assert receiver.ids == delivered + await fleet.reported_lines()
        assert (await fleet.status()).last_error == ""


@each_store
async def test_the_cursor_of_a_removed_webhook_is_dropped(receiver: Receiver, store: Store) -> None:
    """Those of other webhooks stay, and another webhook of the name starts at its creation."""
    async with webhook_fleet(store) as fleet:
        await fleet.machine()
        for name in ("Ops", "dev"):
            await fleet.create(receiver, name)
        await fleet.reboot()
        for name in ("ops", "dev"):
            await fleet.caught_up(name)
        before = await store.list_notes("webhook:", "", 1000)
        kept = fleet.cursor_note("dev")
        assert set(before) == {fleet.cursor_note("ops"), kept}
        await fleet.webhooks.remove("ops")
        assert await drop_orphaned_cursors(fleet.fleet) == 1
        after = await store.list_notes("webhook:", "", 1000)
        assert after == {kept: before[kept]}
        assert await drop_orphaned_cursors(fleet.fleet) == 0
        await fleet.webhooks.remove("dev")
        await fleet.create(receiver, "ops")
        await fleet.restart()
        await wait_until_async(lambda: len(receiver.posts) == 9)
        assert receiver.ids[8:] == (await fleet.reported_lines())[4:]
