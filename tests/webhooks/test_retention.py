"""Webhooks and the retention of the journal: no webhook depends on a line that was dropped."""

import pytest

from fairwarning.service.webhooks.cursors import drop_orphaned_cursors
from fairwarning.store.store import Store
from tests.fixtures.fleet import NOON
from tests.fixtures.receiver import Receiver
from tests.fixtures.waiting import wait_until_async
from tests.webhooks.webhook_fleet import each_store, subscribed, webhook_fleet


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
