"""One connection of one machine: requests in, answers out, in order.

A poll that was seen before, byte for byte, is two dictionary look-ups and a write; see
`data_received`. Everything else takes the long way: the reader, the gate, and perhaps the fleet.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from fairwarning.core import limits
from fairwarning.core.errors import FairwarningError
from fairwarning.core.record import changed
from fairwarning.metadata.answers import CONTINUE, Refusal
from fairwarning.metadata.events import refusal_of
from fairwarning.metadata.faults import spoil
from fairwarning.metadata.gate import Ask
from fairwarning.metadata.identity import Caller, Key
from fairwarning.metadata.reader import Reader, Request
from fairwarning.service.faults import Fault, FaultKind

if TYPE_CHECKING:
    from fairwarning.metadata.server import Door, Server

_QUEUE = 8  # requests that wait for the one before, until the client is made to wait too
_UNKNOWN = Refusal(404, "unknown-caller", "Not found. No machine asks from here.")
CROWDED = Refusal(429, "connections", "Too many connections of this machine.", "Retry-After: 1\r\n")
_LIMITED = Refusal(429, "rate", "Too many requests of this machine.", "Retry-After: 1\r\n")
FULL = Refusal(503, "connections", "Too many connections in all.", "Retry-After: 1\r\n")
_LATE = Refusal(408, "deadline", "The request took too long to arrive.")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, and no time


Memo = Mapping[bytes, Ask]
Work = Callable[[], Awaitable[bytes | None]]
"""What takes time: it brings the answer, or None if there is none, or none yet."""

_BLANK = b"\r\n\r\n"
_NOTHING: Memo = {}
_KEEP = limits.KEEP_SECONDS


class Connection(asyncio.Protocol):
    """Reads, keeps order, answers. Who asks is settled before the first byte is looked at."""

    # Most connections set few of these, so they are defaults of the class: that is a tenth of what
    # a connection costs.
    _transport: asyncio.Transport
    _send: Callable[[bytes], None]
    _key: Key
    _memo: Memo = _NOTHING  # what is known by heart, while nothing else is under way
    _caller: Caller | None = None
    _seconds = limits.HEADER_SECONDS  # that are left in this state
    _reader: Reader | None = None  # once something had to be read
    _queue: deque[Request] | None = None
    _busy = False  # a request is being served
    _ending = False  # nothing more is read, and what is left to answer is the last
    _ended = False  # the client sends no more
    _paused = False  # the client does not read its answers
    _deaf = False  # it is made to wait
    _lingers = False  # all is said; only the client is not through
    _held: Ask | None = None
    _timer: asyncio.TimerHandle | None = None
    _task: asyncio.Task[None] | None = None

    def __init__(self, server: "Server", door: "Door") -> None:
        self._server = server
        self.door = door

    # --- What the loop calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Name the caller, once for all requests to come (M22)."""
        self._transport = cast("asyncio.Transport", transport)
        self._send = self._transport.write
        server = self._server
        server.connections.add(self)
        server.counts.connections += 1
        key = self._key = self.door.naming(transport)
        caller = server.callers.known.get(key)
        if caller is None or len(server.connections) > server.most:
            server.greet(self, key)
            return
        self._caller = caller
        self._memo = server.memo
        caller.quiet = 0
        caller.connections += 1
        if caller.connections > server.most_of_machine:
            self.end(CROWDED)

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        ask = self._memo.get(data)
        if ask is None:
            ask = self._server.recognise(data) if self._memo else None
        if ask is None:
            self._read(data)
            return
        caller = cast("Caller", self._caller)
        published = caller.published
        answer = published.answers.get(ask.key)
        polls = caller.polls
        if answer is None or caller.checked is not published.scope or polls >= caller.allowed:
            self._serve(Request(ask, None, b"", ask.close))
            return
        caller.polls = polls + 1
        self._seconds = _KEEP
        self._send(answer)
        if ask.close:
            self._transport.close()

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
        self._part()
        self._server.leave(self)
        if self._busy:
            self._queue = None
            self._release()
            if self._task is not None:
                self._task.cancel()

    def pause_writing(self) -> None:
        """The client does not read: neither do we."""
        self._paused = True
        self._seconds = limits.WRITE_SECONDS
        self._regulate()

    def resume_writing(self) -> None:
        """It reads again."""
        self._paused = False
        self._seconds = limits.KEEP_SECONDS
        if not self._busy:
            self._next()

    # --- What the server calls ---

    def tick(self) -> None:
        """A second has passed. A client that dawdles is let go."""
        self._seconds -= 1
        if self._seconds >= 0:
            return
        if self._paused or self._ended or self._lingers or self._transport.is_closing():
            self._server.counts.refused["unread"] += 1
            self._transport.abort()
        elif self._busy:
            return
        elif self._half_read():
            self.end(_LATE)
        else:
            self._server.counts.refused["idle"] += 1
            self._transport.close()

    def finish(self) -> None:
        """The service stops: answer what is under way, then go."""
        self._ending = True
        if self._held is not None:
            self._wake()
        elif not self._busy:
            self._transport.close()

    def abort(self) -> None:
        """Go at once."""
        self._transport.abort()

    # --- Reading ---

    def _read(self, data: bytes) -> None:
        if self._ending:
            return
        reader = self._reader
        if reader is None:
            reader = self._reader = Reader(self._server.gate)
        fresh, in_body = not reader.in_message, reader.in_body
        requests = reader.feed(data)
        alone = fresh and len(requests) == 1 and not reader.in_message
        if alone and self._server.learn(data, requests[0], reader.head) and self._memo:
            self.data_received(data)
            return
        for request in requests:
            if self._busy or self._paused:
                self._put_off(request)
            else:
                self._serve(request)
        if fresh or requests or reader.in_body != in_body:
            self._give_time()
        self._settle()

    def _half_read(self) -> bool:
        return self._reader is not None and self._reader.in_message

    def _give_time(self) -> None:
        """A request is half read: the rest has to come soon."""
        if self._half_read() and not self._paused:
            in_body = self._reader is not None and self._reader.in_body
            self._seconds = limits.BODY_SECONDS if in_body else limits.HEADER_SECONDS

    def _settle(self) -> None:
        """What comes next: by heart if nothing is under way; and is a body waited for?"""
        reader, waits = self._reader, self._busy or self._queue or self._paused
        plain = self._caller is not None and not waits and not self._half_read()
        self._memo = self._server.memo if plain else _NOTHING
        if reader is not None and reader.in_body and reader.wants_continue and not waits:
            reader.wants_continue = False
            self._send(CONTINUE)

    def _put_off(self, request: Request) -> None:
        """Its turn comes after those before it."""
        if self._queue is None:
            self._queue = deque()
        self._queue.append(request)
        self._ending |= request.last
        self._regulate()

    def _next(self) -> None:
        """The request before is answered."""
        while self._queue and not self._busy and not self._paused:
            self._serve(self._queue.popleft())
        self._give_time()
        self._settle()
        self._regulate()
        self._leave_if_done()

    def _leave_if_done(self) -> None:
        if not self._ending or self._busy or self._queue:
            return
        if not self._half_read() or self._ended:
            self._transport.close()
        elif not self._lingers:
            # Closing while the client still sends would reset the connection, and it would never
            # read why. So it is let finish, for a while, and nobody listens.
            self._lingers = True
            self._seconds = limits.HEADER_SECONDS
            self._transport.write_eof()

    def _regulate(self) -> None:
        if self._transport.is_closing():
            return
        full = self._paused or bool(self._queue and len(self._queue) >= _QUEUE)
        if full and not self._deaf:
            self._transport.pause_reading()
        elif self._deaf and not full:
            self._transport.resume_reading()
        self._deaf = full

    # --- Serving ---

    def _serve(self, request: Request) -> None:
        if not self._paused:
            self._seconds = limits.KEEP_SECONDS
        self._ending |= request.last
        try:
            answer = self._answer(request)
        except Refusal as refusal:
            answer = self._refused(refusal)
            if request.head:
                answer = answer.partition(_BLANK)[0] + _BLANK
        if isinstance(answer, bytes):
            self._write(answer)
        elif answer is not None:
            self._busy = True
            self._memo = _NOTHING
            self._task = asyncio.get_running_loop().create_task(self._work(answer))

    def _answer(self, request: Request) -> bytes | Work | None:
        """The answer, or the work that will bring it, or None: it is held, or never comes."""
        caller, ask = self._caller, request.ask
        if caller is not None and not request.spared:
            if caller.polls >= caller.allowed:
                raise _LIMITED
            caller.allowed -= 1
        if ask is None:
            assert request.refusal is not None
            raise request.refusal
        if caller is None or caller.machine() is None:
            return partial(self._identify, request)
        faults = self._server.faults
        if faults and not request.spared and (fault := faults.take(caller.scope, caller.name)):
            return self._suffer(ask, request, caller, fault)
        answer = self._server.answer(caller, ask, request.body)
        if ask.wait and isinstance(answer, bytes) and self._server.events.knows(caller, ask):
            self._hold(ask, caller)
            return None
        return answer

    def _write(self, answer: bytes) -> None:
        self._send(answer)
        self._leave_if_done()

    def _refused(self, refusal: Refusal) -> bytes:
        self._server.counts.refused[refusal.reason] += 1
        return refusal.answer(close=self._ending and not self._queue)

    def end(self, refusal: Refusal) -> None:
        """Say why, and go."""
        self._ending = True
        self._write(self._refused(refusal))

    # --- What takes time ---

    async def _work(self, work: Work) -> None:
        try:
            answer = await work()
        except Refusal as refusal:
            answer = self._refused(refusal)
        except FairwarningError as error:
            answer = self._refused(refusal_of(error))
        self._task = None
        self._busy = False
        if not self._ended and not self._paused:
            self._seconds = limits.KEEP_SECONDS
        if answer is not None:
            self._write(answer)
        self._next()

    async def _identify(self, request: Request) -> None:
        """The first request of a machine that has not asked lately, or is no more what it was."""
        if self._caller is not None:
            self._part()
            self._caller = None
            self._server.strange(self._key)
        caller = await self._server.callers.find(self._key)
        if caller is None:
            raise _UNKNOWN
        self._part()
        self._caller = caller
        caller.quiet = 0
        caller.connections += 1
        if caller.connections > self._server.most_of_machine:
            self._ending = True
            self._queue = None
            raise CROWDED
        self._again(request)

    def _again(self, request: Request) -> None:
        """Next of all."""
        if self._queue is None:
            self._queue = deque()
        self._queue.appendleft(request)

    def _part(self) -> None:
        """It counts as nobody's any more."""
        if self._caller is not None:
            self._caller.connections -= 1
        else:
            self._server.no_longer_strange(self._key)

    # --- Held requests (M18) ---

    def _hold(self, ask: Ask, caller: Caller) -> None:
        self._busy = True
        self._memo = _NOTHING
        self._held = ask
        self._server.hold(caller)
        caller.published.follow(self._wake)
        self._timer = asyncio.get_running_loop().call_later(ask.wait, self._wake)

    def _release(self) -> bool:
        """Hold no more; whether anything was held."""
        if self._held is None or self._caller is None or self._timer is None:
            return False
        self._held = None
        self._busy = False
        self._server.counts.held -= 1
        self._caller.published.unfollow(self._wake)
        self._timer.cancel()
        self._timer = None
        return True

    def _wake(self) -> None:
        """The document is another, or the time is up: answer with what there is."""
        ask = self._held
        if ask is not None and self._release():
            self._serve(Request(changed(ask, wait=0), None, b"", ask.close, spared=True))
            if not self._busy:
                self._next()

    # --- Faults on demand (M21) ---

    def _suffer(
        self, ask: Ask, request: Request, caller: Caller, fault: Fault
    ) -> bytes | Work | None:
        self._server.counts.faults[fault.kind] += 1
        if fault.kind is FaultKind.DELAY:
            return partial(self._delay, request, fault.delay_seconds)
        self._ending = True
        if fault.kind is FaultKind.RESET:
            raw: socket.socket = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()
            return None
        return spoil(fault.kind, caller.published, ask)

    async def _delay(self, request: Request, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._again(changed(request, spared=True))
