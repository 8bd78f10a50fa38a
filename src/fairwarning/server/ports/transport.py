"""The transport of a connection to the console or the ARM port, plain or over TLS.

Its socket is watched by an epoll of its port, which handles one connection in a turn of the event
loop. So a client, or a thousand of them, delays a poll by one read or one handshake at most (IB7).
"""

import asyncio
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from socket import SocketType
from ssl import SSLContext

from fairwarning.core import limits
from fairwarning.metadata.socket_events import SocketEvents
from fairwarning.metadata.transport import SocketTransport

_RECEIVE_BYTES = 64 * 1024  # at once


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
        make: Callable[[], asyncio.Protocol],
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
