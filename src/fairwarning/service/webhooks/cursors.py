"""The position of each subscription in the journal, and its state; stored as notes in the store.

Only the process that has the duty for a subscription writes them. Each note is written by itself,
so that one that cannot be written holds up no other subscription, and one after another, so that
the fleet's commits wait for one at most.
"""

import asyncio

import msgspec

from fairwarning.core.model import Ref, Resource
from fairwarning.core.record import record
from fairwarning.service.fleet import Fleet
from fairwarning.service.webhooks.subscription import (
    CURSORS,
    STATES,
    Subscription,
    SubscriptionState,
    read,
    resource_id,
)

_NOTES_AT_ONCE = 1000  # looked at by one call


@record
class StoredProgress:
    """What is stored about a subscription: the last line it has handled, its state, its error."""

    cursor: int
    state: SubscriptionState
    last_error: str
    delivered: int = 0  # known to the process that delivers
    given_up: int = 0


class DutyLost(Exception):
    """Another process or epoch delivers now, or the subscription was removed or created again."""


class Cursors:
    """Reads and writes cursors and states."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._store = fleet.store
        self._writing = asyncio.Lock()

    async def read(self, subscription: Subscription) -> StoredProgress:
        """Return what is stored; a new subscription starts at its own creation.

        A stored cursor may be that of a removed subscription of the same name. If retention has
        dropped the line of the creation, every line that is left is newer (IR2).
        """
        created = await self._store.latest_lines(1, entity=(Resource, subscription.id))
        stored = await self._store.get_note(subscription.cursor_note)
        state, _, error = (await self._store.get_note(subscription.state_note) or "").partition(" ")
        return StoredProgress(
            cursor=max(created[0].number if created else 0, int(stored or 0)),
            state=SubscriptionState(state or SubscriptionState.FOLLOWING),
            last_error=error,
        )

    async def check(self, subscription: Subscription) -> None:
        """Raise `DutyLost` if this process may not send messages of the subscription any more."""
        stored = await self._fleet.reader.read(Resource, subscription.id)
        if stored is None or read(stored) != subscription:
            raise DutyLost
        if not await self._store.has_duty(subscription.id):
            raise DutyLost

    async def resume(self, subscription: Subscription) -> None:
        """Resume a stopped subscription, whichever process delivers it."""
        state = await self._store.get_note(subscription.state_note) or ""
        if state.startswith(SubscriptionState.STOPPED):
            self._fleet.check_writing()
            await self._store.drop_notes({subscription.state_note: state})

    async def save(self, subscription: Subscription, note: str, value: str) -> None:
        """Store one of its notes; return once it is durable."""
        async with self._writing:
            self._fleet.check_writing()
            if not await self._store.save_notes({note: (subscription.id, value)}):
                raise DutyLost


async def drop_orphaned_cursors(fleet: Fleet) -> int:
    """Drop the cursors and states of removed subscriptions; return of how many."""
    notes: dict[str, str] = {}  # read before the subscriptions, so that none is missed
    for prefix in (CURSORS, STATES):
        notes |= await fleet.store.list_notes(prefix, "", _NOTES_AT_ONCE)
    refs: dict[str, Ref] = {note: (Resource, resource_id(note.split(":")[1])) for note in notes}
    subscriptions = await fleet.reader.read_all(refs.values())
    orphaned = {
        note: notes[note] for note, ref in refs.items() if _is_orphaned(note, subscriptions[ref])
    }
    await fleet.store.drop_notes(orphaned)
    return len({note.partition(":")[2] for note in orphaned})


def _is_orphaned(note: str, resource: object) -> bool:
    if not isinstance(resource, Resource):
        return True
    try:
        subscription = read(resource)
    except msgspec.DecodeError:
        return False
    return note not in {subscription.cursor_note, subscription.state_note}
