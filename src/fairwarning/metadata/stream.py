"""One connection's bytes: read in order, put off, limited in time, and kept in step.

What is asked and answered is not decided here; see `connection.py`.
"""

import asyncio
from collections import deque
from collections.abc import Mapping

from fairwarning.core import limits
from fairwarning.metadata.answers import CONTINUE, RequestRefused
from fairwarning.metadata.callers import Caller, Listener
from fairwarning.metadata.handler import RequestHandler
from fairwarning.metadata.reader import ReceivedRequest, RequestReader
from fairwarning.metadata.validation import ParsedRequest

Known = Mapping[bytes, ParsedRequest]

NOTHING: Known = {}
_QUEUE = 8  # requests that wait for the one before, until the client is made to wait too
_LATE = RequestRefused(408, "deadline", "The request took too long to arrive.")


class RequestStream(asyncio.Protocol):
    """Requests come out one after the other; answers go in, in the same order."""

    # Most connections set few of these, so they are defaults of the class: that is a tenth of what
    # a connection costs.
    _transport: asyncio.Transport
    _known: Known = NOTHING  # what is known by heart, while nothing else is under way
    _caller: Caller | None = None
    _seconds = limits.HEADER_SECONDS  # that are left in this state
    _reader: RequestReader | None = None  # once something had to be read
    _queue: deque[ReceivedRequest] | None = None
    _busy = False  # a request is being served
    _ending = False  # nothing more is read, and what is left to answer is the last
    _ended = False  # the client sends no more
    _paused = False  # the client does not read its answers
    _deaf = False  # it is made to wait
    _lingers = False  # all is said; only the client is not through

    def __init__(self, desk: RequestHandler, door: Listener) -> None:
        self._desk = desk
        self.door = door

    def _serve(self, request: ReceivedRequest) -> None:
        """Answer it now, or be busy until it is answered."""
        raise NotImplementedError

    # --- Time ---

    def tick(self) -> None:
        """A second has passed. A client that dawdles is let go."""
        self._seconds -= 1
        if self._seconds >= 0:
            return
        if self._paused or self._ended or self._lingers or self._transport.is_closing():
            self._desk.counts.refused["unread"] += 1
            self._transport.abort()
        elif self._busy:
            return
        elif self._half_read():
            self.end(_LATE)
        else:
            self._desk.counts.refused["idle"] += 1
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
            reader = self._reader = RequestReader(self._desk.gate)
        fresh, in_body = not reader.in_message, reader.in_body
        requests = reader.feed(data)
        alone = fresh and len(requests) == 1 and not reader.in_message
        if alone and self._desk.memo.learn(data, requests[0], reader.head) and self._known:
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
        self._known = self._desk.memo.known if plain else NOTHING
        if reader is not None and reader.in_body and reader.wants_continue and not waits:
            reader.wants_continue = False
            self._transport.write(CONTINUE)

    def _put_off(self, request: ReceivedRequest) -> None:
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

    # --- Flow ---

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

    # --- Answers ---

    def _write(self, answer: bytes) -> None:
        self._transport.write(answer)
        self._leave_if_done()

    def _refused(self, refusal: RequestRefused) -> bytes:
        self._desk.counts.refused[refusal.reason] += 1
        return refusal.answer(close=self._ending and not self._queue)

    def end(self, refusal: RequestRefused) -> None:
        """Say why, and go."""
        self._ending = True
        self._write(self._refused(refusal))
