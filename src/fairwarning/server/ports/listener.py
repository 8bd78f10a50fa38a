"""Accept connections to the console or the ARM port: counted, and one in a turn of the loop."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from socket import SOCK_STREAM, SocketType
from ssl import SSLContext

from fairwarning.metadata.accepting import Acceptor, AcceptWarning
from fairwarning.metadata.callers import PeerAddress
from fairwarning.metadata.socket_events import SocketEvents
from fairwarning.server.ports.counting import ConnectionCounter
from fairwarning.server.ports.refusals import TLS_REQUIRED, PortRefusal
from fairwarning.server.ports.transport import PortTransport, TlsStart

MakeConnection = Callable[[], asyncio.Protocol]

_READ_BYTES = 64 * 1024


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
                    accepted.recv(_READ_BYTES)  # closing with unread bytes discards the answer
                accepted.send(refusal.to_bytes(self._now()))
        accepted.close()
