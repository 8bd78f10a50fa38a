"""One connection of one machine: who asks, and what is answered.

A poll that was seen before, byte for byte, is two dictionary look-ups and a write; see
`data_received`. Everything else takes the long way: the reader, the gate, and perhaps the fleet.
"""

import asyncio
import logging
import socket
import struct
from collections import deque
from functools import partial
from typing import cast

from fairwarning.core import limits
from fairwarning.core.errors import FairwarningError
from fairwarning.core.record import changed
from fairwarning.metadata.answers import RequestRefused
from fairwarning.metadata.callers import Caller, Key
from fairwarning.metadata.events import refusal_of
from fairwarning.metadata.faults import faulty_response
from fairwarning.metadata.handler import CROWDED, Work
from fairwarning.metadata.reader import ReceivedRequest
from fairwarning.metadata.stream import NOTHING, RequestStream
from fairwarning.metadata.validation import ParsedRequest
from fairwarning.service.faults import FaultKind, FaultRule

log = logging.getLogger(__name__)

_UNKNOWN = RequestRefused(404, "unknown-caller", "Not found. No machine asks from here.")
_LIMITED = RequestRefused(429, "rate", "Too many requests of this machine.", "Retry-After: 1\r\n")
_FAILED = RequestRefused(503, "unavailable", "This went wrong; ask again.", "Retry-After: 1\r\n")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, and no time
_BLANK = b"\r\n\r\n"
_KEEP = limits.KEEP_SECONDS


class MetadataConnection(RequestStream):
    """Names its caller before the first byte is looked at, and answers it."""

    _key: Key
    _held: ParsedRequest | None = None
    _timer: asyncio.TimerHandle | None = None
    _task: asyncio.Task[None] | None = None

    # --- What the loop calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Name the caller, once for all requests to come (M22)."""
        self._transport = cast("asyncio.Transport", transport)
        desk = self._desk
        connections = desk.connections
        connections.add(self)
        desk.accepted += 1
        key = self._key = self.door.naming(transport)
        caller = desk.callers.known.get(key)
        if caller is None or len(connections) > desk.most:
            if unwelcome := desk.greet(key):
                self.end(unwelcome)
            return
        self._caller = caller
        self._known = desk.memo.known
        caller.connections += 1
        if caller.connections > desk.most_of_machine:
            self.end(CROWDED)

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        ask = self._known.get(data)
        if ask is None:
            ask = self._desk.memo.recognise(data) if self._known else None
        if ask is None:
            self._read(data)
            return
        caller = cast("Caller", self._caller)
        published = caller.published
        answer = published.answers.get(ask.key)
        polls = caller.polls
        if (
            answer is None
            or caller.checked is not published.scope
            or polls >= caller.allowed
            # The time is only asked for where something can be too old: it takes its own.
            or (self._desk.documents.fresh_until and self._desk.documents.is_stale())
        ):
            self._serve(ReceivedRequest(ask, None, b"", ask.close))
            return
        caller.polls = polls + 1
        if not polls:
            self._desk.callers.active.append(caller)
        transport = self._transport
        transport.write(answer)
        if ask.close:
            transport.close()
        else:
            self._seconds = _KEEP

    def eof_received(self) -> bool:
        """The client sends no more, but may still read: what is under way is answered, if soon.

        Who only hung up looks the same, so nothing waits for long: a held request not at all.
        """
        self._ending = self._ended = True
        self._seconds = limits.HEADER_SECONDS
        self._release()
        return self._task is not None

    def connection_lost(self, _: Exception | None) -> None:
        """Leave nothing behind."""
        desk, caller = self._desk, self._caller
        desk.connections.discard(self)
        if caller is not None:
            caller.connections -= 1
        else:
            desk.no_longer_strange(self._key)
        if desk.emptied is not None and not desk.connections:
            desk.emptied.set()
        if self._busy:
            self._queue = None
            self._release()
            if self._task is not None:
                self._task.cancel()

    def finish(self) -> None:
        """The service stops: answer what is under way, then go."""
        self._ending = True
        if self._held is not None:
            self._wake()
        elif not self._busy:
            self._transport.close()

    # --- Serving ---

    def _serve(self, request: ReceivedRequest) -> None:
        if not self._paused:
            self._seconds = limits.KEEP_SECONDS
        self._ending |= request.last
        try:
            answer = self._answer(request)
        except RequestRefused as refusal:
            answer = self._refused(refusal)
            if request.head:
                answer = answer.partition(_BLANK)[0] + _BLANK
        if isinstance(answer, bytes):
            self._write(answer)
        elif answer is not None:
            self._busy = True
            self._known = NOTHING
            self._task = asyncio.get_running_loop().create_task(self._work(answer))

    def _answer(self, request: ReceivedRequest) -> bytes | Work | None:
        """The answer, or the work that will bring it, or None: it is held, or never comes."""
        caller, ask = self._caller, request.ask
        if caller is not None and not request.spared:
            if caller.polls >= caller.allowed:
                raise _LIMITED
            caller.allowed -= 1
            self._desk.callers.tire(caller)
        if ask is None:
            assert request.refusal is not None
            raise request.refusal
        if caller is None or caller.machine() is None:
            return partial(self._identify, request)
        faults = self._desk.faults
        if faults and not request.spared and (fault := faults.take(caller.scope, caller.name)):
            return self._suffer(ask, request, caller, fault)
        answer = self._desk.answer(caller, ask, request.body)
        if ask.wait and isinstance(answer, bytes) and self._desk.events.knows(caller, ask):
            self._hold(ask, caller)
            return None
        return answer

    # --- What takes time ---

    async def _work(self, work: Work) -> None:
        try:
            answer = await work()
        except RequestRefused as refusal:
            answer = self._refused(refusal)
        except FairwarningError as error:
            answer = self._refused(refusal_of(error))
        except Exception:
            log.exception("a request failed")
            self._ending = True
            answer = self._refused(_FAILED)
        self._task = None
        self._busy = False
        if not self._ended and not self._paused:
            self._seconds = limits.KEEP_SECONDS
        if answer is not None:
            self._write(answer)
        self._next()

    async def _identify(self, request: ReceivedRequest) -> None:
        """The first request of a machine that has not asked lately, or is no more what it was."""
        if self._caller is not None:
            self._caller.connections -= 1
            self._caller = None
            self._desk.strange(self._key)
        caller = await self._desk.callers.find(self._key)
        if caller is None:
            raise _UNKNOWN
        self._desk.no_longer_strange(self._key)
        self._caller = caller
        caller.connections += 1
        if caller.connections > self._desk.most_of_machine:
            self._ending = True
            self._queue = None
            raise CROWDED
        self._again(request)

    def _again(self, request: ReceivedRequest) -> None:
        """Next of all."""
        if self._queue is None:
            self._queue = deque()
        self._queue.appendleft(request)

    # --- Held requests (M18) ---

    def _hold(self, ask: ParsedRequest, caller: Caller) -> None:
        self._busy = True
        self._known = NOTHING
        self._held = ask
        self._desk.hold(caller)
        caller.published.add_listener(self._wake)
        self._timer = asyncio.get_running_loop().call_later(ask.wait, self._wake)

    def _release(self) -> bool:
        """Hold no more; whether anything was held."""
        if self._held is None or self._caller is None or self._timer is None:
            return False
        self._held = None
        self._busy = False
        self._desk.counts.held -= 1
        self._caller.published.remove_listener(self._wake)
        self._timer.cancel()
        self._timer = None
        return True

    def _wake(self) -> None:
        """The document is another, or the time is up: answer with what there is."""
        ask = self._held
        if ask is not None and self._release():
            self._serve(ReceivedRequest(changed(ask, wait=0), None, b"", ask.close, spared=True))
            if not self._busy:
                self._next()

    # --- Faults on demand (M21) ---

    def _suffer(
        self, ask: ParsedRequest, request: ReceivedRequest, caller: Caller, fault: FaultRule
    ) -> bytes | Work | None:
        self._desk.counts.faults[fault.kind] += 1
        if fault.kind is FaultKind.DELAY:
            return partial(self._delay, request, fault.delay_seconds)
        self._ending = True
        if fault.kind is FaultKind.RESET:
            raw: socket.socket = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()
            return None
        return faulty_response(fault.kind, caller.published, ask)

    async def _delay(self, request: ReceivedRequest, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._again(changed(request, spared=True))
