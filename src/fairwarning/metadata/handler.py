"""What all connections share, and where they get their answers."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from fairwarning.core import limits
from fairwarning.core.errors import FairwarningError
from fairwarning.metadata import instance
from fairwarning.metadata.answers import RequestRefused, render
from fairwarning.metadata.callers import Caller, Callers, Key, Listener
from fairwarning.metadata.counts import RequestCounts
from fairwarning.metadata.events import GONE, EventsResource, refusal_of
from fairwarning.metadata.request_cache import RequestCache
from fairwarning.metadata.validation import API_VERSIONS, EVENTS, ParsedRequest, RequestValidator
from fairwarning.service.config.settings import CloudSettings, MetadataSettings
from fairwarning.service.fleet import Fleet

Work = Callable[[], Awaitable[bytes | None]]
"""What takes time: it brings the answer, or None if there is none, or none yet."""

CROWDED = RequestRefused(
    429, "connections", "Too many connections of this machine.", "Retry-After: 1\r\n"
)
_STALE = RequestRefused(
    503, "stale", "What is known may be too old; ask again.", "Retry-After: 1\r\n"
)
_FULL = RequestRefused(503, "connections", "Too many connections in all.", "Retry-After: 1\r\n")


class OpenConnection(Protocol):
    """A connection, as far as those know it who do not read from it."""

    door: Listener

    def tick(self) -> None:
        """A second has passed."""

    def finish(self) -> None:
        """Answer what is under way, then go."""

    def abort(self) -> None:
        """Go at once."""


class RequestHandler:
    """Knows callers, requests and limits; gives answers, or the work that brings them."""

    def __init__(
        self, fleet: Fleet, cloud: CloudSettings | None, settings: MetadataSettings | None
    ) -> None:
        self.settings = settings or MetadataSettings()
        self.counts = RequestCounts()
        self.gate = RequestValidator(self.settings)
        self.memo = RequestCache(self.gate)
        self.documents = fleet.documents
        self.faults = fleet.faults
        self.rate = self.settings.requests_per_second or 0
        self.callers = Callers(fleet, limits.REQUESTS_BURST if self.rate else sys.maxsize)
        self.events = EventsResource(fleet, self.counts, self.callers.active)
        self.faults.listeners.append(self.callers.recheck)
        self.connections: set[OpenConnection] = set()
        self.accepted = 0  # connections so far
        self.emptied: asyncio.Event | None = None  # whoever stops waits for it
        self.most = self.settings.connections
        self.most_of_machine = self.settings.connections_of_machine
        self._strangers: dict[Key, int] = {}
        self._cloud = cloud or CloudSettings()

    # --- Coming and going ---

    def greet(self, key: Key) -> RequestRefused | None:
        """A connection of somebody who has not asked lately, or one too many: then, why not."""
        strangers = self.strange(key)
        if len(self.connections) > self.most:
            return _FULL
        return CROWDED if strangers > self.most_of_machine else None

    def strange(self, key: Key) -> int:
        """A connection of somebody who has not asked lately; how many these are."""
        count = self._strangers[key] = self._strangers.get(key, 0) + 1
        return count

    def no_longer_strange(self, key: Key) -> None:
        """It is gone, or known by now."""
        self._strangers[key] -= 1
        if not self._strangers[key]:
            del self._strangers[key]

    def hold(self, caller: Caller) -> None:
        """A poll waits for its answer: it has been seen, and is counted when it is answered."""
        self.counts.held += 1
        caller.polls -= 1
        caller.allowed -= 1
        self.events.seen(caller)

    # --- Answers ---

    def answer(self, caller: Caller, ask: ParsedRequest, body: bytes) -> bytes | Work:
        """The answer to a request, or the work that brings it."""
        if self.documents.is_stale():
            raise _STALE  # IK3
        if ask.path == EVENTS and ask.method == b"GET":
            return self.events.ready(caller, ask) or partial(self.events.fetch, caller, ask)
        if ask.path == EVENTS:
            return partial(self.events.approve, caller, ask, body)
        return self._describe(caller, ask)

    def _describe(self, caller: Caller, ask: ParsedRequest) -> bytes:
        """Instance metadata (M19)."""
        self.counts.descriptions += 1
        if ask.path == API_VERSIONS:
            return render(200, instance.versions_body(), close=ask.close)
        machine, scope = caller.machine(), caller.published.scope
        if machine is None or scope is None or not caller.runs():
            raise GONE
        try:
            body, kind = instance.answer(
                self._cloud, scope, machine, ask.version, ask.segments, text=ask.text
            )
        except FairwarningError as error:
            raise refusal_of(error) from error
        return render(200, body, kind=kind, close=ask.close)
