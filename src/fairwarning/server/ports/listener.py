"""Accept connections to the console or the ARM port: counted, and over TLS within a deadline."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ssl import SSLContext

from fairwarning.core import limits
from fairwarning.metadata.accepting import Acceptor, AcceptWarning
from fairwarning.metadata.callers import PeerAddress
from fairwarning.server.ports.counting import ConnectionCounter
from fairwarning.server.ports.refusals import TLS_REQUIRED, PortRefusal

Release = Callable[[], None]
MakeConnection = Callable[[Release], asyncio.Protocol]

_READ_BYTES = 64 * 1024


class PortListener(Acceptor):
    """The listening socket of a port. A connection is counted before its TLS handshake."""

    def __init__(
        self,
        sock: socket.socket,
        counter: ConnectionCounter,
        make: MakeConnection,
        now: Callable[[], float],
        tls: SSLContext | None,
    ) -> None:
        super().__init__(sock, AcceptWarning())
        self._counter = counter
        self._make = make
        self._now = now
        self._tls = tls

    def _serve(self, descriptor: int, peer: PeerAddress) -> None:
        accepted = socket.socket(fileno=descriptor)
        address = peer[0] if peer else ""
        if refusal := self._counter.refusal(address):
            self._refuse(accepted, refusal)
            return
        release = self._counter.add(address)
        make = partial(self._make, release)
        if self._tls is None:
            task = self._connect(make, accepted)
        else:
            task = self._track(self._start_tls(self._tls, make, accepted, release))
        task.add_done_callback(lambda task: _release_failed(task, release))

    async def _start_tls(
        self,
        tls: SSLContext,
        make: Callable[[], asyncio.Protocol],
        accepted: socket.socket,
        release: Release,
    ) -> None:
        """Start TLS, or answer a client that has sent a plain HTTP request."""
        try:
            first = await self._first_byte(accepted)
        except BaseException:
            accepted.close()
            raise
        if not first.isalpha():  # a request begins with a letter, a TLS handshake does not
            options = {
                "ssl_handshake_timeout": float(limits.PORT_HEADER_SECONDS),
                "ssl_shutdown_timeout": float(limits.PORT_LINGER_SECONDS),
            }
            await self._loop.connect_accepted_socket(make, accepted, ssl=tls, **options)
            return
        release()
        with accepted, suppress(OSError):
            self._answer(accepted, TLS_REQUIRED)

    async def _first_byte(self, accepted: socket.socket) -> bytes:
        """Wait for the client's first byte, and leave it to be read."""
        accepted.settimeout(0)
        readable = asyncio.Event()
        self._loop.add_reader(accepted, readable.set)
        try:
            async with asyncio.timeout(limits.PORT_HEADER_SECONDS):
                await readable.wait()
        finally:
            self._loop.remove_reader(accepted)
        return accepted.recv(1, socket.MSG_PEEK)

    def _refuse(self, accepted: socket.socket, refusal: PortRefusal) -> None:
        """Answer without waiting for the client. A client of TLS cannot be answered so early."""
        with accepted, suppress(OSError):
            if self._tls is None:
                self._answer(accepted, refusal)

    def _answer(self, accepted: socket.socket, refusal: PortRefusal) -> None:
        accepted.settimeout(0)
        with suppress(BlockingIOError):
            accepted.recv(_READ_BYTES)  # closing with unread bytes discards the answer
        accepted.send(refusal.to_bytes(self._now()))

    def close(self) -> None:
        """Close the socket, and end handshakes in progress."""
        super().close()
        for task in tuple(self._connecting):
            task.cancel()


def _release_failed(task: "asyncio.Task[object]", release: Release) -> None:
    """Stop counting a connection whose handshake failed; else the connection does so itself."""
    if task.cancelled() or task.exception() is not None:
        release()
