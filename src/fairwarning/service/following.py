"""Keeps a process up to date with commits of other processes to the shared store (X2, IK3)."""

import asyncio
import logging
from collections.abc import Callable

from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Ref, Scope
from fairwarning.service.documents import DocumentCache
from fairwarning.service.health import PartHealth
from fairwarning.service.reader import load_readable
from fairwarning.store.store import ClockReading, Heartbeat, SharedStore, Store

log = logging.getLogger(__name__)

STALENESS_SECONDS = 30.0
_RETRY_SECONDS = 0.2
_FIRST_SECONDS = 60.0  # to catch up for the first time, when the service starts
_PAGE = 256  # changes per query

Publish = Callable[[str, Scope | None], None]


class ChangeFollower:
    """Listens for changes, and loads them when the fleet's writer calls `catch_up`.

    Only the writer publishes, so a loaded scope is never older than the published one.
    """

    def __init__(
        self,
        store: Store,
        shared: SharedStore,
        documents: DocumentCache,
        wake: Callable[[], None],
        synchronize: Callable[[ClockReading], None],
    ) -> None:
        self.staleness_seconds = STALENESS_SECONDS
        self.all_scopes = False  # load only scopes that clients read, unless set
        self.caught_up = asyncio.Event()
        self._store = store
        self._shared = shared
        self._documents = documents
        self._wake = wake
        self._synchronize = synchronize
        self._unavailable = False
        self._heartbeat: Heartbeat | None = None
        self._position = -1
        self._read_from = -1  # the position before the last read
        self._line = -1
        self._epoch = 0

    @property
    def has_heartbeat(self) -> bool:
        """Whether a heartbeat waits for `catch_up`."""
        return self._heartbeat is not None

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                async for heartbeat in self._shared.heartbeats():
                    if heartbeat.clock:
                        self._synchronize(heartbeat.clock)
                    self._heartbeat = heartbeat
                    self._wake()
                    if self._unavailable:
                        log.warning("the database can be followed again")
                        self._unavailable = False
            except Exception as error:
                if not self._unavailable:
                    log.warning(
                        "cannot follow the database, polls are answered from memory: %s",
                        error,
                        exc_info=None if isinstance(error, Unavailable) else error,
                    )
                    self._unavailable = True
            await asyncio.sleep(_RETRY_SECONDS)

    def health(self) -> PartHealth:
        """Whether the database answers."""
        stale = self._documents.is_stale()
        if stale:
            text = "the database has been unreachable for too long; polls fail until it is back"
        elif self._unavailable:
            text = "the database is unavailable; polls are answered from memory"
        else:
            text = ""
        return PartHealth(name="store", problem=text, stops_writes=stale)

    async def wait_until_caught_up(self) -> None:
        """Wait for the first heartbeat; raise `Unavailable` if there is none for a while (IB6)."""
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                await self.caught_up.wait()
        except TimeoutError:
            text = "the database became unavailable while the service started; try again"
            raise Unavailable("StoreAway", text) from None

    async def catch_up(self, publish: Publish) -> Heartbeat | None:
        """Publish the changes of other processes.

        Return the heartbeat, or None if there is none or the store is unavailable.
        """
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is None:
            return None
        try:
            await self._read_changes(heartbeat, publish)
        except Unavailable:
            return None  # the next heartbeat covers these changes
        self._shared.enter_epoch(heartbeat.epoch)
        self._documents.fresh_until = heartbeat.read_at + self.staleness_seconds
        self.caught_up.set()
        return heartbeat

    def journal_grew(self, heartbeat: Heartbeat) -> bool:
        """Whether the journal has new lines since the last call."""
        grew, self._line = heartbeat.line != self._line, heartbeat.line
        return grew

    async def _read_changes(self, heartbeat: Heartbeat, publish: Publish) -> None:
        position = heartbeat.position
        if heartbeat.epoch != self._epoch:
            self._position, self._epoch = -1, heartbeat.epoch
        if self._read_from < heartbeat.dropped or self._position < 0:
            # This process was suspended for so long that retention has dropped removals which it
            # had not read; another server has taken over; or this is the first heartbeat.
            published = list(self._documents.scopes())
            for first in range(0, len(published), _PAGE):
                await self._publish(published[first : first + _PAGE], publish)
            self._position = position
        self._read_from = self._position
        while self._position < position:
            changes = await self._store.changes_since(self._position, _PAGE)
            await self._publish([change.scope for change in changes], publish)
            self._position = changes[-1].position if len(changes) == _PAGE else position

    async def _publish(self, names: list[str], publish: Publish) -> None:
        refs: list[Ref] = [
            (Scope, name)
            for name in names
            if self.all_scopes or self._documents.get(name) is not None
        ]
        loaded = await load_readable(self._store.load, refs)
        for ref, entity in loaded.items():
            assert entity is None or isinstance(entity, Scope)
            publish(ref[1], entity)
        for _, name in set(refs) - loaded.keys():
            self._documents.publish(name, None)  # polls load it again, and are told that it fails
