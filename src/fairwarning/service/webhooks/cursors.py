"""The position of each subscription in the journal; stored as a note in the store.

Concurrent cursor writes share one transaction: while a backlog goes to sixteen receivers, the
fleet's commits wait for one cursor write, not for sixteen.
"""

import asyncio

from fairwarning.core.model import Ref, Resource
from fairwarning.service.fleet import Fleet
from fairwarning.service.webhooks.subscription import CURSORS, Subscription, resource_id
from fairwarning.store.store import Batch

_CURSORS_AT_ONCE = 1000  # looked at by one call


class Cursors:
    """Reads and writes cursors."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._pending: dict[str, str] = {}
        self._writing = asyncio.Lock()

    async def read(self, subscription: Subscription) -> int:
        """Return the stored cursor; a new subscription starts at its own creation.

        A stored cursor may be that of a removed subscription of the same name. If retention has
        dropped the line of the creation, every line that is left is newer (IR2).
        """
        store = self._fleet.store
        created = await store.latest_lines(1, entity=(Resource, subscription.id))
        stored = await store.get_note(subscription.note)
        return max(created[0].number if created else 0, int(stored or 0))

    async def save(self, subscription: Subscription, number: int) -> None:
        """Store the cursor; return once it is durable."""
        self._pending[subscription.note] = str(number)
        async with self._writing:
            if subscription.note in self._pending:  # else the previous write included it
                await self._write()

    async def _write(self) -> None:
        notes, self._pending = self._pending, {}
        try:
            await self._fleet.store.commit(Batch(self._fleet.clock.now(), notes=notes))
        except BaseException:
            self._pending = notes | self._pending  # the other callers retry
            raise


async def drop_orphaned_cursors(fleet: Fleet) -> int:
    """Drop the cursors of subscriptions that were removed; return how many."""
    # Before the subscriptions: none is missed.
    cursors = await fleet.store.list_notes(CURSORS, "", _CURSORS_AT_ONCE)
    refs: dict[str, Ref] = {
        note: (Resource, resource_id(note.removeprefix(CURSORS))) for note in cursors
    }
    subscriptions = await fleet.reader.read_all(refs.values())
    orphaned = {note: cursors[note] for note, ref in refs.items() if subscriptions[ref] is None}
    await fleet.store.drop_notes(orphaned)
    return len(orphaned)
