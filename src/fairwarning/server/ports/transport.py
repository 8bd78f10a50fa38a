"""Connections to the console or the ARM port, plain or over TLS: accepted, read and written.

A socket is watched by an epoll of its port, which handles one connection in a turn of the event
loop. So a client, or a thousand of them, delays a poll by one read or one handshake at most (IB7).
"""

import asyncio
import socket
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from contextlib import suppress
from socket import SOCK_STREAM, SocketType
from ssl import SSLContext
from typing import Any

from fairwarning.core import limits
from fairwarning.metadata.accepting import Acceptor, AcceptWarning
from fairwarning.metadata.callers import PeerAddress
from fairwarning.metadata.socket_events import SocketEvents
from fairwarning.metadata.transport import SocketTransport
from fairwarning.server.ports.refusals import TLS_REQUIRED, ConnectionCounter, PortRefusal

MakeConnection = Callable[[], asyncio.Protocol]

_RECEIVE_BYTES = 64 * 1024  # at once
_JOINED_BYTES = 16 * 1024  # a larger response is sent as it is written, so that it can be paused


class PortTransport(SocketTransport):
    """Calls `release` when the connection is closed, whatever its protocol was by then."""

    def __init__(
        self,
        sock: SocketType,
        protocol: asyncio.Protocol,
        events: SocketEvents,
        release: Callable[[], None],
    ) -> None:
        super().__init__(sock, protocol, events)
        self._release = release

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection to another protocol."""
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def can_write_eof(self) -> bool:
        """Whether one direction can be closed."""
        return True

    def _receive_more(self) -> bytes:
        try:
            return self._sock.recv(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return b""

    def _force_close(self, error: Exception | None) -> None:
        """Close at once; called by `SSLProtocol`."""
        self._lose(error)

    def _report_lost(self, error: Exception | None) -> None:
        self._release()
        super()._report_lost(error)


class TlsProtocol(SSLProtocol, asyncio.Protocol):
    """The TLS of asyncio, which takes what it has to decrypt in a buffer of its own."""

    max_size = _RECEIVE_BYTES  # of that buffer

    def data_received(self, data: bytes) -> None:
        """Decrypt data, or go on with the handshake."""
        rest = memoryview(data)
        while rest:
            buffer = self.get_buffer(len(rest))
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            self.buffer_updated(count)
            rest = rest[count:]


class TlsStart(asyncio.Protocol):
    """Waits for the first bytes: a TLS handshake, or a plain request, which is refused."""

    _transport: PortTransport
    _deadline: asyncio.TimerHandle

    def __init__(
        self,
        make: MakeConnection,
        tls: SSLContext,
        refusal: Callable[[], bytes],
    ) -> None:
        self._make = make
        self._tls = tls
        self._refusal = refusal
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client, but not for ever."""
        assert isinstance(transport, PortTransport)
        self._transport = transport
        self._deadline = self._loop.call_later(limits.PORT_HEADER_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Start TLS."""
        self._deadline.cancel()
        if data[:1].isalpha():  # a request begins with a letter, a TLS handshake does not
            self._transport.write(self._refusal())
            self._transport.close()
            return
        protocol = TlsProtocol(
            self._loop,
            self._make(),
            self._tls,
            None,  # type: ignore[arg-type]  # nobody waits for the handshake
            server_side=True,
            ssl_handshake_timeout=limits.PORT_HEADER_SECONDS,
            ssl_shutdown_timeout=limits.PORT_LINGER_SECONDS,
        )
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(data)

    def connection_lost(self, _: Exception | None) -> None:
        """Wait no longer."""
        self._deadline.cancel()


class JoinedWrites:
    """A transport that sends in one piece what is written in one turn of the event loop.

    uvicorn writes the head of a response and its body apart: two TLS records, and two system calls.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._bytes = 0  # of them

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the transport has)
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the data at the end of this turn, or with the next flush."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        self._bytes += len(data)
        if self._bytes > _JOINED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what was written so far."""
        if self._parts:
            data, self._parts, self._bytes = b"".join(self._parts), [], 0
            if not self._transport.is_closing():
                self._transport.write(data)

    def write_eof(self) -> None:
        """Send what was written, and end this direction."""
        self.flush()
        self._transport.write_eof()

    def close(self) -> None:
        """Send what was written, and close."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what was not sent is lost."""
        self._parts, self._bytes = [], 0
        self._transport.abort()


class PortListener(Acceptor):
    """The listening socket of a port. A connection is counted before its TLS handshake."""

    _at_once = 1

    def __init__(
        self,
        sock: socket.socket,
        counter: ConnectionCounter,
        make: MakeConnection,
        now: Callable[[], float],
        *,
        tls: SSLContext | None,
        events: SocketEvents,
    ) -> None:
        super().__init__(sock, AcceptWarning())
        self._counter = counter
        self._make = make
        self._now = now
        self._tls = tls
        self._events = events
        self._family = int(sock.family)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited by the connections

    @property
    def problem(self) -> str:
        """Why no connections are accepted now."""
        return self._warning.problem

    def _serve(self, descriptor: int, peer: PeerAddress) -> None:
        accepted = SocketType(self._family, SOCK_STREAM, 0, descriptor)
        address = peer[0] if peer else ""
        if refusal := self._counter.refusal(address):
            self._refuse(accepted, refusal)
            return
        release = self._counter.add(address)
        PortTransport(accepted, self._protocol(), self._events, release).begin()

    def _protocol(self) -> asyncio.Protocol:
        if self._tls is None:
            return self._make()
        return TlsStart(self._make, self._tls, lambda: TLS_REQUIRED.to_bytes(self._now()))

    def _refuse(self, accepted: SocketType, refusal: PortRefusal) -> None:
        """Answer without waiting for the client. A client of TLS cannot be answered so early."""
        with suppress(OSError):
            if self._tls is None:
                accepted.settimeout(0)
                with suppress(BlockingIOError):
                    accepted.recv(_RECEIVE_BYTES)  # closing with unread bytes discards the answer
                accepted.send(refusal.to_bytes(self._now()))
        accepted.close()
