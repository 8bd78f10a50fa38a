"""The byte stream of one connection: ordering, queueing, deadlines and flow control.

Requests are identified and answered in `connection.py`.
"""

import asyncio
from collections import deque
from collections.abc import Mapping

from fairwarning.core import limits
from fairwarning.metadata.accepting import Listener
from fairwarning.metadata.answers import CONTINUE, Refusal
from fairwarning.metadata.callers import Caller, Key
from fairwarning.metadata.handler import RequestHandler
from fairwarning.metadata.reader import ReceivedRequest, RequestReader
from fairwarning.metadata.validation import ParsedRequest

CachedRequests = Mapping[bytes, ParsedRequest]

NO_CACHED_REQUESTS: CachedRequests = {}
_QUEUE = 8  # pipelined requests that may wait; with more, stop reading from the client
_LATE = Refusal(408, "deadline", "The request took too long to arrive.")


class RequestStream(asyncio.Protocol):
    """Serves requests one after the other and writes the responses in the same order."""

    # Most connections set few of these attributes. Class defaults save a tenth of the memory of a
    # connection.
    _transport: asyncio.Transport
    _cached: CachedRequests = NO_CACHED_REQUESTS  # the cache, while no request is in progress
    _caller: Caller | None = None
    _seconds_left = limits.HEADER_SECONDS  # until the deadline of the current state
    _reader: RequestReader | None = None  # created for the first request that is not cached
    _queue: deque[ReceivedRequest] | None = None
    _busy = False  # a request is being served
    _closing = False  # read no more requests; close after the queued ones
    _eof = False  # the client has closed its sending side
    _writing_paused = False  # the client does not read its responses
    _reading_paused = False  # back-pressure: we do not read from the client
    _lingering = False  # all responses are sent; the client still sends

    def __init__(self, handler: RequestHandler, listener: Listener, key: Key) -> None:
        """`key` identifies the caller."""
        self._handler = handler
        self.listener = listener
        self._key = key

    def _serve(self, request: ReceivedRequest) -> None:
        """Answer a request now, or set `_busy` until it is answered."""
        raise NotImplementedError

    # --- Time ---

    def tick(self) -> None:
        """Count down a second, and close the connection of a client that is too slow."""
        self._seconds_left -= 1
        if self._seconds_left >= 0:
            return
        if self._writing_paused or self._eof or self._lingering or self._transport.is_closing():
            self._handler.counts.refused["unread"] += 1
            self._transport.abort()
        elif self._busy:
            return
        elif self._in_message():
            self.end(_LATE)
        else:
            self._handler.counts.refused["idle"] += 1
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    # --- Reading ---

    def _read(self, data: bytes) -> None:
        if self._closing:
            return
        reader = self._reader
        if reader is None:
            if self._caller is None and not self._busy and self._serve_cached(data):
                return
            reader = self._reader = RequestReader(
                self._handler.validator, proxy=self.listener.proxy
            )
        at_start, in_body = not reader.in_message, reader.in_body
        requests = reader.feed(data)
        single = at_start and len(requests) == 1 and not reader.in_message
        cache = self._handler.request_cache
        if single and cache.add(data, requests[0], reader.head) and self._cached:
            self.data_received(data)
            return
        for request in requests:
            if self._busy or self._writing_paused:
                self._enqueue(request)
            else:
                self._serve(request)
        if at_start or requests or reader.in_body != in_body:
            self._set_read_deadline()
        self._prepare_next_read()

    def _serve_cached(self, data: bytes) -> bool:
        """Serve the first request of an unidentified caller if its bytes are cached."""
        cache = self._handler.request_cache
        parsed = cache.requests.get(data) or cache.parse(data)
        if parsed is not None:
            self._serve(ReceivedRequest(parsed, None, b"", parsed.close))
        return parsed is not None

    def _in_message(self) -> bool:
        return self._reader is not None and self._reader.in_message

    def _set_read_deadline(self) -> None:
        """Limit the time for the rest of a partly read request."""
        if self._in_message() and not self._writing_paused:
            in_body = self._reader is not None and self._reader.in_body
            self._seconds_left = limits.BODY_SECONDS if in_body else limits.HEADER_SECONDS

    def _prepare_next_read(self) -> None:
        """Use the cache if the connection is idle; send 100 Continue if a body may follow."""
        reader, waiting = self._reader, self._busy or self._queue or self._writing_paused
        idle = self._caller is not None and not waiting and not self._in_message()
        self._cached = self._handler.request_cache.requests if idle else NO_CACHED_REQUESTS
        if reader is not None and reader.in_body and reader.wants_continue and not waiting:
            reader.wants_continue = False
            self._transport.write(CONTINUE)

    def _enqueue(self, request: ReceivedRequest) -> None:
        """Queue a request behind those in progress."""
        if self._queue is None:
            self._queue = deque()
        self._queue.append(request)
        self._closing |= request.last
        self._update_backpressure()

    def _serve_queued(self) -> None:
        """Serve queued requests, now that the one before them is answered."""
        while self._queue and not self._busy and not self._writing_paused:
            self._serve(self._queue.popleft())
        self._set_read_deadline()
        self._prepare_next_read()
        self._update_backpressure()
        self._close_if_done()

    def _close_if_done(self) -> None:
        if not self._closing or self._busy or self._queue:
            return
        if not self._in_message() or self._eof:
            self._transport.close()
        elif not self._lingering:
            # Closing while the client still sends would reset the connection, and the client would
            # lose the response. So let it finish for a while, and ignore what it sends.
            self._lingering = True
            self._seconds_left = limits.HEADER_SECONDS
            self._transport.write_eof()

    def _update_backpressure(self) -> None:
        if self._transport.is_closing():
            return
        full = self._writing_paused or bool(self._queue and len(self._queue) >= _QUEUE)
        if full and not self._reading_paused:
            self._transport.pause_reading()
        elif self._reading_paused and not full:
            self._transport.resume_reading()
        self._reading_paused = full

    # --- Flow control ---

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its responses."""
        self._writing_paused = True
        self._seconds_left = limits.WRITE_SECONDS
        self._update_backpressure()

    def resume_writing(self) -> None:
        """Serve queued requests, now that the client reads again."""
        self._writing_paused = False
        self._seconds_left = limits.KEEP_SECONDS
        if not self._busy:
            self._serve_queued()

    # --- Responses ---

    def _write(self, response: bytes) -> None:
        self._transport.write(self._handler.date.add_to(response))
        self._close_if_done()

    def _refused(self, refusal: Refusal) -> bytes:
        self._handler.counts.refused[refusal.reason] += 1
        return refusal.to_bytes(close=self._closing and not self._queue)

    def end(self, refusal: Refusal) -> None:
        """Send a refusal and close."""
        self._closing = True
        self._write(self._refused(refusal))
