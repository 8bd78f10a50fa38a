"""The state that all connections share, and the handling of validated requests."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from fairwarning.core import limits
from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import ScaleSet
from fairwarning.metadata import instance
from fairwarning.metadata.accepting import Listener
from fairwarning.metadata.answers import DateHeader, Refusal, RequestCounts, RequestRefused, render
from fairwarning.metadata.callers import Caller, Callers, Key
from fairwarning.metadata.events import GONE, EventsResource, refusal_of
from fairwarning.metadata.interfaces import InterfaceFinder
from fairwarning.metadata.reader import RequestCache
from fairwarning.metadata.validation import API_VERSIONS, EVENTS, ParsedRequest, RequestValidator
from fairwarning.service.config.settings import CloudSettings, MetadataSettings
from fairwarning.service.fleet import Fleet

Work = Callable[[], Awaitable[bytes | None]]
"""Asynchronous work that returns the response; None if there is none, or none yet."""

TOO_MANY_CONNECTIONS = Refusal(
    429, "connections", "Too many connections from this machine.", "Retry-After: 1\r\n"
)
_OUR_FAULT = 500
_REASON_CHARACTERS = 300  # of the text of a refusal, in the journal
_STALE = Refusal(503, "stale", "The cached document may be stale; try again.", "Retry-After: 1\r\n")
_UNKNOWN = Refusal(
    404,
    "unknown-caller",
    "Not found. No machine has this address. Use the URL of a machine (`fairwarning machine list`),"
    " `fairwarning exec`, a Unix socket (--sockets), or --default-machine.",
)
_SERVER_FULL = Refusal(
    503, "connections", "Too many connections to the server.", "Retry-After: 1\r\n"
)


class OpenConnection(Protocol):
    """A connection, as the handler and the server use it."""

    listener: Listener

    def tick(self) -> None:
        """Check deadlines; called once a second."""

    def finish(self) -> None:
        """Answer requests in progress, then close."""

    def abort(self) -> None:
        """Close at once."""


class RequestHandler:
    """Callers, request cache and limits; returns responses, or the work that produces them."""

    def __init__(
        self, fleet: Fleet, cloud: CloudSettings | None, settings: MetadataSettings | None
    ) -> None:
        self.settings = settings or MetadataSettings()
        self.counts = RequestCounts()
        self.validator = RequestValidator(self.settings)
        self.request_cache = RequestCache(self.validator)
        self.documents = fleet.documents
        self.date = DateHeader(fleet.clock, fleet.documents)
        self.faults = fleet.faults
        self.rate = self.settings.requests_per_second or 0
        self.callers = Callers(
            fleet,
            limits.REQUESTS_BURST if self.rate else sys.maxsize,
            self.settings.default_machine,
        )
        self.events = EventsResource(fleet, self.counts, self.callers.active)
        self.faults.listeners.append(self.callers.invalidate_checks)
        self.connections: set[OpenConnection] = set()
        self.accepted = 0  # connections since the start
        self.drained: asyncio.Event | None = None  # set when the last connection closes
        self.max_connections = self.settings.connections
        self.max_connections_per_machine = self.settings.connections_of_machine
        self._unidentified: dict[Key, int] = {}
        self._cloud = cloud or CloudSettings()
        self._reader = fleet.reader
        self._refusals = fleet.refusals
        self._interfaces = InterfaceFinder(fleet.reader)

    # --- Counting connections ---

    def admit_unidentified(self, key: Key) -> Refusal | None:
        """Count a connection of an unidentified caller; return a refusal if it is one too many."""
        count = self.count_unidentified(key)
        if len(self.connections) > self.max_connections:
            return _SERVER_FULL
        return TOO_MANY_CONNECTIONS if count > self.max_connections_per_machine else None

    def count_unidentified(self, key: Key) -> int:
        """Count a connection of an unidentified caller; return how many it has."""
        count = self._unidentified[key] = self._unidentified.get(key, 0) + 1
        return count

    def uncount_unidentified(self, key: Key) -> None:
        """Stop counting a connection: it has closed, or its caller is identified."""
        self._unidentified[key] -= 1
        if not self._unidentified[key]:
            del self._unidentified[key]

    def unknown_caller(self, key: Key) -> Refusal:
        """Return the refusal of a caller that is no machine (M22)."""
        if not self.callers.takes_default(key):
            return _UNKNOWN
        name = self.settings.default_machine
        text = f"Not found. There is no machine {name!r}, or several: see --default-machine."
        return Refusal(404, "unknown-caller", text)

    def hold(self, caller: Caller) -> None:
        """Record a poll now, and count it when it is answered."""
        self.counts.held += 1
        caller.polls -= 1
        caller.allowed -= 1
        self.events.record_poll(caller)

    # --- Responses ---

    def handle(self, caller: Caller, parsed: ParsedRequest, body: bytes) -> bytes | Work:
        """Return the response to a request, or the work that produces it."""
        if self.documents.is_stale():
            raise RequestRefused(_STALE)  # IK3
        if parsed.path == EVENTS and parsed.method == b"GET":
            response = self.events.answer_now(caller, parsed)
            return response or partial(self.events.fetch, caller, parsed)
        if parsed.path == EVENTS:
            return partial(self.events.approve, caller, parsed, body)
        self.counts.descriptions += 1  # M19
        if parsed.path == API_VERSIONS:
            return render(200, instance.versions_body(), close=parsed.close)
        return partial(self._describe, caller, parsed)

    def journal_refusal(self, caller: Caller, refusal: Refusal) -> None:
        """Journal that the machine's approval was refused, unless the fault is ours (O7)."""
        if refusal.status < _OUR_FAULT:
            reason = refusal.error.removeprefix("Bad request. ")[:_REASON_CHARACTERS]
            self._refusals.add(caller.scope, caller.name, refusal.reason, reason)

    async def _describe(self, caller: Caller, parsed: ParsedRequest) -> bytes:
        """Return instance metadata; refuse a machine that cannot send requests."""
        machine, scope = caller.machine(), caller.published.scope
        if machine is None or scope is None or not caller.is_running():
            raise RequestRefused(GONE)
        scale_set = await self._reader.read(ScaleSet, scope.owner) if scope.owner else None
        interface = None
        if instance.shows_interface(parsed.segments):
            interface = await self._interfaces.find(scope, machine, caller.number)
        try:
            body, kind = instance.render(
                self._cloud, scope, machine, parsed.version, parsed.segments,
                text=parsed.text, scale_set=scale_set, interface=interface,
            )  # fmt: skip
        except FairwarningError as error:
            raise RequestRefused(refusal_of(error)) from error
        return render(200, body, kind=kind, close=parsed.close)
