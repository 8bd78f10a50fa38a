"""Accept connections to the console or the ARM port: counted, and over TLS within a deadline."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ssl import SSLContext

from fairwarning.core import limits
from fairwarning.metadata.accepting import Acceptor, AcceptWarning
from fairwarning.server.ports.counting import ConnectionCounter
from fairwarning.server.ports.refusals import PortRefusal

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
        self._options = (
            {
                "ssl_handshake_timeout": float(limits.PORT_HEADER_SECONDS),
                "ssl_shutdown_timeout": float(limits.PORT_LINGER_SECONDS),
            }
            if tls
            else {}
        )

    def _serve(self, accepted: socket.socket, address: str) -> None:
        if refusal := self._counter.refusal(address):
            self._refuse(accepted, refusal)
            return
        release = self._counter.add(address)
        task = self._connect(partial(self._make, release), accepted, ssl=self._tls, **self._options)
        task.add_done_callback(lambda task: _release_failed(task, release))

    def _refuse(self, accepted: socket.socket, refusal: PortRefusal) -> None:
        """Answer without waiting for the client. A client of TLS cannot be answered so early."""
        with accepted, suppress(OSError):
            if self._tls is None:
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
