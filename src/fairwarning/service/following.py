"""Keeps a process up with what others commit to the store they share (X2, IK3)."""

import asyncio
import logging
from collections.abc import Callable

from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Ref, Scope
from fairwarning.service.documents import DocumentCache
from fairwarning.store.store import Heartbeat, SharedStore, Store

log = logging.getLogger(__name__)

STALENESS_SECONDS = 30.0
_RETRY_SECONDS = 0.2
_PAGE = 256  # changes read at once

Publish = Callable[[str, Scope | None], None]


class ChangeFollower:
    """Hears of changes, and brings them in when the fleet's writer says so.

    The writer is the one who publishes: what was loaded is then never older than what is shown.
    """

    def __init__(
        self, store: Store, shared: SharedStore, documents: DocumentCache, wake: Callable[[], None]
    ) -> None:
        self.staleness_seconds = STALENESS_SECONDS
        self.all_scopes = False  # else only those are loaded that somebody reads
        self.begun = asyncio.Event()
        self._store = store
        self._shared = shared
        self._documents = documents
        self._wake = wake
        self._news: Heartbeat | None = None
        self._position = -1
        self._line = -1

    @property
    def has_news(self) -> bool:
        """Whether there is something to catch up with."""
        return self._news is not None

    async def run(self) -> None:
        """Listen, for as long as the fleet is up."""
        away = False
        while True:
            try:
                async for beat in self._shared.heartbeats():
                    if away:
                        log.warning("the database is back")
                        away = False
                    self._news = beat
                    self._wake()
            except Unavailable as error:
                if not away:
                    log.warning("polls are answered from memory for a while: %s", error.message)
                    away = True
            except Exception:
                log.exception("what others do was not heard; it is tried again")
            await asyncio.sleep(_RETRY_SECONDS)

    async def catch_up(self, publish: Publish) -> Heartbeat | None:
        """Publish what others have changed; None where there is nothing new, or no telling."""
        beat, self._news = self._news, None
        if beat is None:
            return None
        try:
            await self._read_changes(beat.position, publish)
        except Unavailable:
            return None  # the next beat brings as much
        self._documents.fresh_until = beat.read_at + self.staleness_seconds
        self.begun.set()
        return beat

    def has_lines(self, beat: Heartbeat) -> bool:
        """Whether the journal is longer than it was when this was last asked."""
        longer, self._line = beat.line != self._line, beat.line
        return longer

    async def _read_changes(self, position: int, publish: Publish) -> None:
        if position < self._position or self._position < 0:
            # The beginning; or a standby that had not got everything took over.
            shown = list(self._documents.scopes())
            for first in range(0, len(shown), _PAGE):
                await self._publish(shown[first : first + _PAGE], publish)
            self._position = position
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
        for ref, entity in (await self._store.load(refs)).items() if refs else ():
            assert entity is None or isinstance(entity, Scope)
            publish(ref[1], entity)
