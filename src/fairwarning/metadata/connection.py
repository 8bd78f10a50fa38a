"""One connection of one machine: identify the caller and answer its requests.

A poll whose bytes are cached takes two dictionary lookups and a write; see `data_received`. All
other requests go through the reader, the validator and, if needed, the fleet.
"""

import asyncio
import logging
import socket
import struct
from collections import deque
from functools import partial
from time import monotonic
from typing import cast

from fairwarning.core import limits
from fairwarning.core.errors import FairwarningError
from fairwarning.core.record import changed
from fairwarning.metadata.answers import Refusal, RequestRefused
from fairwarning.metadata.callers import Caller
from fairwarning.metadata.events import faulty_response, refusal_of
from fairwarning.metadata.handler import TOO_MANY_CONNECTIONS, Work
from fairwarning.metadata.reader import ReceivedRequest
from fairwarning.metadata.stream import NO_CACHED_REQUESTS, RequestStream
from fairwarning.metadata.validation import ParsedRequest
from fairwarning.service.faults import FaultKind, FaultRule

log = logging.getLogger(__name__)

_LIMITED = Refusal(429, "rate", "Too many requests from this machine.", "Retry-After: 1\r\n")
_FAILED = Refusal(503, "unavailable", "Internal failure; try again.", "Retry-After: 1\r\n")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: close() sends RST
_BLANK = b"\r\n\r\n"
_KEEP = limits.KEEP_SECONDS


class MetadataConnection(RequestStream):
    """Identifies the caller before it reads the first byte, and answers its requests."""

    _held: ParsedRequest | None = None
    _timer: asyncio.TimerHandle | None = None
    _task: asyncio.Task[None] | None = None

    # --- Called by the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Look up the caller, once for all requests on this connection (M22)."""
        self._transport = cast("asyncio.Transport", transport)
        key = self._key
        handler = self._handler
        connections = handler.connections
        connections.add(self)
        handler.accepted += 1
        caller = handler.callers.known.get(key)
        if caller is None or len(connections) > handler.max_connections:
            if refusal := handler.admit_unidentified(key):
                self.end(refusal)
            return
        self._caller = caller
        self._cached = handler.request_cache.requests
        caller.connections += 1
        if caller.connections > handler.max_connections_per_machine:
            self.end(TOO_MANY_CONNECTIONS)

    def data_received(self, data: bytes) -> None:
        """Serve a cached poll at once; pass all other bytes to the reader."""
        parsed = self._cached.get(data)
        if parsed is None:
            parsed = self._handler.request_cache.parse(data) if self._cached else None
        if parsed is None:
            self._read(data)
            return
        caller = self._caller
        assert caller is not None  # requests are looked up for identified callers only
        published = caller.published
        rest = published.answers.get(parsed.key)
        polls = caller.polls
        handler = self._handler
        date = handler.date
        if (
            rest is None
            or caller.checked_scope is not published.scope
            or polls >= caller.allowed
            or monotonic() >= date.expires_at
        ):
            self._serve(ReceivedRequest(parsed, None, b"", parsed.close))
            return
        caller.polls = polls + 1
        if not polls:
            handler.callers.active.append(caller)
        self._transport.write(date.ok + rest)
        if parsed.close:
            self._transport.close()
        else:
            self._seconds_left = _KEEP

    def eof_received(self) -> bool:
        """Answer requests in progress, since the client may still read.

        A half-closed client looks like one that hung up, so the time for this is short, and a held
        request is dropped at once.
        """
        self._closing = self._eof = True
        self._seconds_left = limits.HEADER_SECONDS
        self._release()
        return self._task is not None

    def connection_lost(self, _: Exception | None) -> None:
        """Release everything that belongs to this connection."""
        handler, caller = self._handler, self._caller
        if caller is not None:
            caller.connections -= 1
        elif self in handler.connections:
            handler.uncount_unidentified(self._key)
        handler.connections.discard(self)
        if handler.drained is not None and not handler.connections:
            handler.drained.set()
        if self._busy:
            self._queue = None
            self._release()
            if self._task is not None:
                self._task.cancel()

    def finish(self) -> None:
        """Answer requests in progress, then close; called when the service stops."""
        self._closing = True
        if self._held is not None:
            self._wake()
        elif not self._busy:
            self._transport.close()

    # --- Serving ---

    def _serve(self, request: ReceivedRequest) -> None:
        if not self._writing_paused:
            self._seconds_left = limits.KEEP_SECONDS
        self._closing |= request.last
        try:
            response = self._respond(request)
        except RequestRefused as refused:
            response = self._refuse(request, refused.refusal)
            if request.head:
                response = response.partition(_BLANK)[0] + _BLANK
        if isinstance(response, bytes):
            self._write(response)
        elif response is not None:
            self._busy = True
            self._cached = NO_CACHED_REQUESTS
            self._task = asyncio.get_running_loop().create_task(self._run_work(request, response))

    def _respond(self, request: ReceivedRequest) -> bytes | Work | None:
        """Return the response, or the work that produces it; None if it is held or dropped."""
        caller, parsed = self._caller, request.parsed
        if caller is not None and not request.exempt:
            if caller.polls >= caller.allowed:
                raise RequestRefused(_LIMITED)
            caller.allowed -= 1
            self._handler.callers.queue_for_refill(caller)
        identified = caller is not None and caller.machine() is not None
        if parsed is None and (identified or not request.approval):
            assert request.refusal is not None
            raise RequestRefused(request.refusal)
        if parsed is None or caller is None or not identified:
            return partial(self._identify, request)
        faults = self._handler.faults
        if faults and not request.exempt and (fault := faults.take(caller.scope, caller.name)):
            return self._inject_fault(parsed, request, caller, fault)
        response = self._handler.handle(caller, parsed, request.body)
        if (
            parsed.wait
            and isinstance(response, bytes)
            and self._handler.events.is_not_modified(caller, parsed)
        ):
            self._hold(parsed, caller)
            return None
        return response

    # --- Asynchronous work ---

    def _refuse(self, request: ReceivedRequest, refusal: Refusal) -> bytes:
        if request.approval and self._caller is not None:
            self._handler.journal_refusal(self._caller, refusal)
        return self._refused(refusal)

    async def _run_work(self, request: ReceivedRequest, work: Work) -> None:
        try:
            response = await work()
        except RequestRefused as refused:
            response = self._refuse(request, refused.refusal)
        except FairwarningError as error:
            response = self._refuse(request, refusal_of(error))
        except Exception:
            log.exception("metadata request failed")
            self._closing = True
            response = self._refused(_FAILED)
        self._task = None
        self._busy = False
        if not self._eof and not self._writing_paused:
            self._seconds_left = limits.KEEP_SECONDS
        if response is not None:
            self._write(response)
        self._serve_queued()

    async def _identify(self, request: ReceivedRequest) -> bytes | None:
        """Look up a caller that is not in memory, or whose machine was deleted or recreated."""
        if self._caller is not None:
            self._caller.connections -= 1
            self._caller = None
            self._handler.count_unidentified(self._key)
        caller = await self._handler.callers.find(self._key)
        if caller is None:
            refusal = request.refusal or self._handler.unknown_caller(self._key)
            raise RequestRefused(refusal)
        self._handler.uncount_unidentified(self._key)
        self._caller = caller
        caller.connections += 1
        if caller.connections > self._handler.max_connections_per_machine:
            self._closing = True
            self._queue = None
            raise RequestRefused(TOO_MANY_CONNECTIONS)
        if request.parsed and request.parsed.wait:
            self._requeue(request)  # it may be held
            return None
        response = self._respond(request)
        return response if response is None or isinstance(response, bytes) else await response()

    def _requeue(self, request: ReceivedRequest) -> None:
        """Put a request at the head of the queue."""
        if self._queue is None:
            self._queue = deque()
        self._queue.appendleft(request)

    # --- Held requests (M18) ---

    def _hold(self, parsed: ParsedRequest, caller: Caller) -> None:
        self._busy = True
        self._cached = NO_CACHED_REQUESTS
        self._held = parsed
        self._handler.hold(caller)
        caller.published.add_listener(self._wake)
        self._timer = asyncio.get_running_loop().call_later(parsed.wait, self._wake)

    def _release(self) -> bool:
        """Stop holding the request; return whether one was held."""
        if self._held is None or self._caller is None or self._timer is None:
            return False
        self._held = None
        self._busy = False
        self._handler.counts.held -= 1
        self._caller.published.remove_listener(self._wake)
        self._timer.cancel()
        self._timer = None
        return True

    def _wake(self) -> None:
        """Answer the held request: the document has changed, or the wait is over."""
        parsed = self._held
        if parsed is not None and self._release():
            self._serve(
                ReceivedRequest(changed(parsed, wait=0), None, b"", parsed.close, exempt=True)
            )
            if not self._busy:
                self._serve_queued()

    # --- Injected faults (M21) ---

    def _inject_fault(
        self, parsed: ParsedRequest, request: ReceivedRequest, caller: Caller, fault: FaultRule
    ) -> bytes | Work | None:
        self._handler.counts.faults[fault.kind] += 1
        if fault.kind is FaultKind.DELAY:
            return partial(self._delay, request, fault.delay_seconds)
        self._closing = True
        if fault.kind is FaultKind.RESET:
            raw: socket.socket = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()
            return None
        return faulty_response(fault.kind, caller.published, parsed)

    async def _delay(self, request: ReceivedRequest, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._requeue(changed(request, exempt=True))
