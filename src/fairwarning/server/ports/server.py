"""uvicorn with our own listener and connections, which keep to the limits of a port."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from fairwarning.server.ports.connection import LimitedConnection
from fairwarning.server.ports.counting import ConnectionCounter
from fairwarning.server.ports.listener import PortListener, Release

_TICK = 10  # calls of `on_tick`, which uvicorn makes ten times a second


class PortServer(uvicorn.Server):
    """Serves one port. It leaves signals to the program."""

    _listener: PortListener

    def __init__(
        self, config: uvicorn.Config, counter: ConnectionCounter, now: Callable[[], float]
    ) -> None:
        super().__init__(config)
        self._counter = counter
        self._now = now

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        assert sockets is not None
        (sock,) = sockets
        self._listener = PortListener(
            sock, self._counter, self._connection, self._now, self.config.ssl
        )
        self._listener.start()
        self.servers = []  # uvicorn's own listeners
        self.started = True

    def _connection(self, release: Release) -> asyncio.Protocol:
        return LimitedConnection(self.config, self.server_state, release, self._now)

    async def on_tick(self, counter: int) -> bool:
        """Check the deadlines of all connections once a second."""
        if counter % _TICK == 0:
            now = asyncio.get_running_loop().time()
            for connection in tuple(self.server_state.connections):
                assert isinstance(connection, LimitedConnection)
                connection.tick(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and finish the requests in progress."""
        self._listener.close()
        await super().shutdown(sockets)
