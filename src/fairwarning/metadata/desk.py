"""What all connections share, and where they get their answers."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from fairwarning.core import limits
from fairwarning.core.errors import FairwarningError
from fairwarning.metadata import instance
from fairwarning.metadata.answers import Refusal, render
from fairwarning.metadata.counts import Counts
from fairwarning.metadata.events import GONE, Events, refusal_of
from fairwarning.metadata.gate import API_VERSIONS, EVENTS, Ask, Gate
from fairwarning.metadata.identity import Caller, Callers, Door, Key
from fairwarning.metadata.memo import Memo
from fairwarning.service.fleet import Fleet
from fairwarning.service.settings import Cloud, Settings

Work = Callable[[], Awaitable[bytes | None]]
"""What takes time: it brings the answer, or None if there is none, or none yet."""

CROWDED = Refusal(429, "connections", "Too many connections of this machine.", "Retry-After: 1\r\n")
_STALE = Refusal(503, "stale", "What is known may be too old; ask again.", "Retry-After: 1\r\n")
_FULL = Refusal(503, "connections", "Too many connections in all.", "Retry-After: 1\r\n")


class Guest(Protocol):
    """A connection, as far as those know it who do not read from it."""

    door: Door

    def tick(self) -> None:
        """A second has passed."""

    def finish(self) -> None:
        """Answer what is under way, then go."""

    def abort(self) -> None:
        """Go at once."""


class Desk:
    """Knows callers, requests and limits; gives answers, or the work that brings them."""

    def __init__(self, fleet: Fleet, cloud: Cloud | None, settings: Settings | None) -> None:
        self.settings = settings or Settings()
        self.counts = Counts()
        self.gate = Gate(self.settings)
        self.memo = Memo(self.gate)
        self.documents = fleet.documents
        self.faults = fleet.faults
        self.rate = self.settings.requests_per_second or 0
        self.callers = Callers(fleet, limits.REQUESTS_BURST if self.rate else sys.maxsize)
        self.events = Events(fleet, self.counts, self.callers.active)
        self.faults.followers.append(self.callers.recheck)
        self.connections: set[Guest] = set()
        self.accepted = 0  # connections so far
        self.emptied: asyncio.Event | None = None  # whoever stops waits for it
        self.most = self.settings.connections
        self.most_of_machine = self.settings.connections_of_machine
        self._strangers: dict[Key, int] = {}
        self._cloud = cloud or Cloud()

    # --- Coming and going ---

    def greet(self, key: Key) -> Refusal | None:
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

    def answer(self, caller: Caller, ask: Ask, body: bytes) -> bytes | Work:
        """The answer to a request, or the work that brings it."""
        if self.documents.is_stale():
            raise _STALE  # IK3
        if ask.path == EVENTS and ask.method == b"GET":
            return self.events.ready(caller, ask) or partial(self.events.fetch, caller, ask)
        if ask.path == EVENTS:
            return partial(self.events.approve, caller, ask, body)
        return self._describe(caller, ask)

    def _describe(self, caller: Caller, ask: Ask) -> bytes:
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
