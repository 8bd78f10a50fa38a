"""The transport of an accepted connection: reads and writes its socket, and buffers what is left.

It is cheaper than the event loop's own transport, above all to create and to close: a connection
often serves one request.
"""

import asyncio
import logging
from contextlib import suppress
from socket import SHUT_WR, SocketType

from fairwarning.metadata.socket_events import FAILED, READ, WRITE, SocketEvents

log = logging.getLogger(__name__)

Buffer = bytes | bytearray | memoryview

RECEIVE_BYTES = 4096  # at once; more than a cached request has
_USUAL_BYTES = 478  # read first: polls are shorter, and Python allocates this much at less cost
_HIGH_WATER_BYTES = 64 * 1024  # above this, the protocol is asked to stop writing
_LOW_WATER_BYTES = 16 * 1024
_NOTHING = b""


class SocketTransport(asyncio.Transport):
    """Calls its protocol as asyncio's transports do: nothing after `connection_lost`."""

    __slots__ = (
        "_buffer",
        "_closing",
        "_descriptor",
        "_eof",
        "_eof_due",
        "_events",
        "_lost",
        "_protocol",
        "_reading",
        "_sock",
        "_watched",
        "_writing_paused",
    )  # fmt: skip

    def __init__(self, sock: SocketType, protocol: asyncio.Protocol, events: SocketEvents) -> None:
        sock.settimeout(0)
        self._sock = sock
        self._protocol = protocol
        self._events = events
        self._descriptor = sock.fileno()
        self._buffer: bytes | bytearray = _NOTHING  # to be sent
        self._watched = 0
        self._reading = True
        self._writing_paused = False
        self._closing = False  # close once the buffer is sent
        self._eof = False  # the client has closed its sending side
        self._eof_due = False  # close the sending side once the buffer is sent
        self._lost = False

    def begin(self, data: bytes = b"") -> None:
        """Have the protocol serve the client, which has sent `data` so far."""
        try:
            self._protocol.connection_made(self)
            self._start()
            if data and not self._closing:
                self._protocol.data_received(data)
        except Exception:
            log.exception(FAILED)
            self.abort()

    def _start(self) -> None:
        """Read from the client; close the connection if the system cannot watch another one."""
        try:
            self._watch()
        except OSError as error:
            log.warning("cannot watch a connection: %s; closing it", error.strerror)
            self._lose(error)

    def _watch(self) -> None:
        """Watch the socket for what can be done now."""
        events = READ if self._reading and not (self._closing or self._eof) else 0
        if self._buffer:
            events |= WRITE
        if events != self._watched and not self._lost:
            self._events.watch(self._descriptor, self, self._watched, events)
            self._watched = events

    # --- Called by `SocketEvents` ---

    def ready(self, events: int) -> None:
        """Send what is buffered, and read."""
        if events != READ and not self._is_readable(events):
            return
        try:
            data = self._sock.recv(_USUAL_BYTES)
            if len(data) == _USUAL_BYTES:
                data += self._receive_more()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        if data:
            self._protocol.data_received(data)
        else:
            self._end_reading()

    def _is_readable(self, events: int) -> bool:
        """Send what is buffered; return whether to read as well."""
        if self._watched & WRITE:
            self._flush()
        return events != WRITE and bool(self._watched & READ)

    def _receive_more(self) -> bytes:
        try:
            return self._sock.recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return b""

    def _end_reading(self) -> None:
        self._eof = True
        if self._protocol.eof_received():
            self._watch()
        else:
            self.close()

    def _flush(self) -> None:
        assert isinstance(self._buffer, bytearray)
        try:
            sent = self._sock.send(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        del self._buffer[:sent]
        if self._writing_paused and len(self._buffer) <= _LOW_WATER_BYTES:
            self._writing_paused = False
            self._protocol.resume_writing()
        if self._buffer:
            return
        self._watch()
        if self._closing:
            self._lose(None)
        elif self._eof_due:
            self.write_eof()

    # --- Called by the protocol ---

    def write(self, data: Buffer) -> None:
        """Send data now; buffer what the socket does not take. Without effect once it is lost."""
        if not self._buffer:
            try:
                sent = self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._lose(error)
                return
            if sent == len(data):
                return
            self._buffer = bytearray(data[sent:])
        else:
            self._buffer += data
        self._watch()
        if len(self._buffer) > _HIGH_WATER_BYTES and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def write_eof(self) -> None:
        """Close the sending side once everything is sent."""
        self._eof_due = True
        if not self._buffer and not self._lost:
            with suppress(OSError):  # the client has gone
                self._sock.shutdown(SHUT_WR)

    def pause_reading(self) -> None:
        """Leave what the client sends in the kernel."""
        self._reading = False
        self._watch()

    def resume_reading(self) -> None:
        """Read again."""
        self._reading = True
        self._watch()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are buffered."""
        return len(self._buffer)

    def is_closing(self) -> bool:
        """Whether the connection is closed, or will be."""
        return self._closing

    def close(self) -> None:
        """Read no more, and close once everything is sent."""
        if not self._closing:
            self._closing = True
            if self._buffer:
                self._watch()
            else:
                self._lose(None)

    def abort(self) -> None:
        """Close at once."""
        self._lose(None)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return the socket."""
        return self._sock if name == "socket" else default

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            if self._watched:
                self._events.watch(self._descriptor, self, self._watched, 0)
                self._watched = 0
            self._lost = self._closing = True
            self._buffer = _NOTHING
            self._sock.close()
            # Later, as the protocol may be in the middle of something.
            self._events.loop.call_soon(self._report_lost, error)

    def _report_lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, _NO_PROTOCOL  # no cycle of references
        protocol.connection_lost(error)


_NO_PROTOCOL = asyncio.Protocol()
