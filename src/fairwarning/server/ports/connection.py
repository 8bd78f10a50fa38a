"""One connection to the console or the ARM port: uvicorn's, with limits.

uvicorn limits neither the headers of a request nor the time in which it arrives, and it reads
pipelined requests without end. Streams of the application may stay open as long as they like.
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import cast

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from fairwarning.core import limits
from fairwarning.server.ports.refusals import HEADERS_TOO_LARGE, LATE, MALFORMED, PortRefusal
from fairwarning.server.ports.transport import JoinedWrites

_PIECE = 64 * 1024  # bytes that are parsed before the limits are checked
_FIELD_BYTES = len(": \r\n")


class _TooLargeError(Exception):
    """Stops the parser at a header beyond the limits."""


class LimitedConnection(HttpToolsProtocol):
    """Reads one request at a time, and refuses those that are too large or too slow."""

    _deadline = inf  # for what the client has to send
    _write_deadline = inf
    _closing_since = inf
    _in_head = _in_body = False
    _framing_bytes = 0  # of the current request: all but its body
    _discarding = False  # the request is refused: ignore what the client still sends
    _discarded = 0
    _held = b""  # received behind a request that is not answered yet

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        now: Callable[[], float],
    ) -> None:
        """`now` is fleet time."""
        super().__init__(config, server_state, {})
        self._now = now

    # --- Called by the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self._writes = JoinedWrites(cast("asyncio.Transport", transport), self.loop)
        super().connection_made(cast("asyncio.Transport", self._writes))
        self._set_deadline(limits.PORT_HEADER_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything that belongs to this connection."""
        super().connection_lost(exc)
        self._held = b""

    def data_received(self, data: bytes) -> None:
        """Parse the request, unless the client has to wait for an earlier response."""
        self._unset_keepalive_if_required()
        for start in range(0, len(data), _PIECE):
            if self._discarding:
                self._discard(len(data) - start)
                return
            if self._must_wait():
                self._held += data[start:]
                self.flow.pause_reading()
                return
            if self._deadline == inf:
                self._set_deadline(limits.PORT_HEADER_SECONDS)
            self._parse(data[start : start + _PIECE])

    def pause_writing(self) -> None:
        """Wait for a client that does not read, but not for ever."""
        super().pause_writing()
        self._write_deadline = self.loop.time() + limits.PORT_WRITE_SECONDS

    def resume_writing(self) -> None:
        """Go on, now that the client reads again."""
        super().resume_writing()
        self._write_deadline = inf

    # --- Time ---

    def tick(self, now: float) -> bool:
        """Check the deadlines; called once a second with the time of the event loop.

        Return whether one has passed, which costs a part of this turn.
        """
        if self.transport.is_closing():  # it waits until the client has read its response
            self._closing_since = min(self._closing_since, now)
            late = now >= self._closing_since + limits.PORT_WRITE_SECONDS
        else:
            late = now >= self._write_deadline
        if late:
            self.transport.abort()
        elif now >= self._deadline and not self.transport.is_closing():
            self._end_late()
            late = True
        return late

    def _end_late(self) -> None:
        """Close the connection of a client that is too slow."""
        if self._discarding:
            self.transport.abort()
        elif self._must_wait() or (self._in_body and self.flow.read_paused):
            self._set_deadline(limits.PORT_BODY_SECONDS)  # it waits for us
        elif self._in_head or (self._in_body and not self.cycle.response_complete):
            self._refuse(LATE)
        else:
            self.transport.close()

    def _set_deadline(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds

    # --- Reading ---

    def _is_answering(self) -> bool:
        started = self.cycle is not None  # before the first request it is, whatever its type says
        return started and not self.cycle.response_complete

    def _must_wait(self) -> bool:
        """Whether a complete request is being answered, so that the next one has to wait."""
        return bool(self.pipeline) or (self._is_answering() and not self._in_body)

    def _parse(self, piece: bytes) -> None:
        self._framing_bytes += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            return  # the offer is ignored; the request itself has been read
        except httptools.HttpParserError as error:
            too_large = isinstance(error.__context__, _TooLargeError)
            self._refuse(HEADERS_TOO_LARGE if too_large else MALFORMED)
            return
        if self._framing_bytes > limits.PORT_HEADER_BYTES:
            self._refuse(HEADERS_TOO_LARGE)

    def _discard(self, count: int) -> None:
        self._discarded += count
        if self._discarded > limits.PORT_LINGER_BYTES:
            self.flow.pause_reading()

    # --- Called by httptools ---

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_head = True
        self._set_deadline(limits.PORT_HEADER_SECONDS)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header or a trailer."""
        if len(self.headers) >= limits.PORT_HEADER_FIELDS:
            raise _TooLargeError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to serve the request."""
        sizes = (len(name) + len(value) + _FIELD_BYTES for name, value in self.headers)
        path = self.url.partition(b"?")[0]
        if (
            len(self.url) + sum(sizes) > limits.PORT_HEADER_BYTES
            or len(path) > limits.PORT_PATH_BYTES
        ):
            raise _TooLargeError
        super().on_headers_complete()
        self._in_head, self._in_body = False, True
        self._set_deadline(limits.PORT_BODY_SECONDS)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._framing_bytes -= len(body)
        super().on_body(body)
        if self.cycle.response_complete:
            self._discard(len(body))

    def on_message_complete(self) -> None:
        """End the request."""
        super().on_message_complete()
        self._in_body = False
        self._framing_bytes = self._discarded = 0
        if self.cycle.response_complete:  # before the body had arrived
            self._set_deadline(self.timeout_keep_alive)
        else:
            self._deadline = inf

    # --- Responses ---

    def on_response_complete(self) -> None:
        """Go on with the next request; limit the time for the rest of one that was answered."""
        self._writes.flush()
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._in_head or self._in_body:
            self._unset_keepalive_if_required()
            over = self._in_body and self.cycle.response_complete
            self._set_deadline(limits.PORT_LINGER_SECONDS if over else limits.PORT_BODY_SECONDS)
        if self._held and not self._must_wait():
            held, self._held = self._held, b""
            self.data_received(held)

    def _refuse(self, refusal: PortRefusal) -> None:
        """Send a refusal, and close once the client stops sending or the time is up.

        Closing while it still sends would reset the connection, and it would lose the response.
        """
        self._discarding = True
        if self.pipeline or (self._in_body and self.cycle.response_started):
            self.transport.abort()
            return
        if self._is_answering() and not self._in_body:
            self.cycle.keep_alive = False  # the connection closes after the response
            self._deadline = inf
            return
        if self._is_answering():
            self.cycle.disconnected = True  # the application gives up, and its response is dropped
            self.cycle.message_event.set()
        self.transport.write(refusal.to_bytes(self._now()))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._set_deadline(limits.PORT_LINGER_SECONDS)
