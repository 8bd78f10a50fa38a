"""How far each subscription has got in the journal; kept as a note of the store.

Cursors of several subscriptions are written together, and one transaction at a time: a backlog that
is sent to sixteen receivers stands between two commits of the fleet once, not sixteen times.
"""

import asyncio

from fairwarning.core.model import Resource
from fairwarning.service.fleet import Fleet
from fairwarning.service.webhooks.subscription import Subscription
from fairwarning.store.store import Batch


class Cursors:
    """Reads and writes them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._waiting: dict[str, str] = {}
        self._writing = asyncio.Lock()

    async def read(self, subscription: Subscription) -> int:
        """Where the last process got to; a new subscription begins at its own creation."""
        store = self._fleet.store
        created = await store.latest_lines(1, entity=(Resource, subscription.id))
        kept = await store.get_note(subscription.note)
        return max(created[0].number, int(kept or 0))

    async def keep(self, subscription: Subscription, number: int) -> None:
        """Return once it is durable."""
        self._waiting[subscription.note] = str(number)
        async with self._writing:
            if subscription.note in self._waiting:  # else whoever wrote last took it along
                await self._write()

    async def _write(self) -> None:
        notes, self._waiting = self._waiting, {}
        try:
            await self._fleet.store.commit(Batch(self._fleet.clock.now(), notes=notes))
        except BaseException:
            self._waiting = notes | self._waiting  # each of the others tries for itself
            raise
