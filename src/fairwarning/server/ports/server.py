"""uvicorn with our own listener and connections, which keep to the limits of a port."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from fairwarning.metadata.socket_events import SocketEvents, new_socket_events
from fairwarning.server.ports.connection import LimitedConnection
from fairwarning.server.ports.refusals import ConnectionCounter
from fairwarning.server.ports.transport import PortListener

log = logging.getLogger(__name__)

_TICK = 10  # calls of `on_tick`, which uvicorn makes ten times a second


class PortServer(uvicorn.Server):
    """Serves one port. It leaves signals to the program."""

    _listener: PortListener | None = None
    _events: SocketEvents | None = None

    def __init__(
        self, config: uvicorn.Config, counter: ConnectionCounter, now: Callable[[], float]
    ) -> None:
        super().__init__(config)
        self._counter = counter
        self._now = now

    @property
    def accept_problem(self) -> str:
        """Why no connections are accepted now."""
        return self._listener.problem if self._listener else ""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    def prepare(self, sock: socket.socket) -> None:
        """Get ready to accept connections; `OSError` without a free descriptor."""
        self._events = new_socket_events(asyncio.get_running_loop(), at_once=1)
        self._listener = PortListener(
            sock,
            self._counter,
            self._connection,
            self._now,
            tls=self.config.ssl,
            events=self._events,
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002  (see `prepare`)
        """Accept connections."""
        assert self._listener is not None
        self._listener.start()
        self.servers = []  # uvicorn's own listeners
        self.started = True

    def _connection(self) -> asyncio.Protocol:
        return LimitedConnection(self.config, self.server_state, self._now)

    async def on_tick(self, counter: int) -> bool:
        """Check the deadlines of all connections once a second; return whether to stop."""
        if counter % _TICK == 0:
            loop = asyncio.get_running_loop()
            now = loop.time()
            for connection in tuple(self.server_state.connections):
                assert isinstance(connection, LimitedConnection)
                try:
                    late = connection.tick(now)
                except Exception:  # it must not end the deadlines of all others
                    log.exception("cannot check the deadlines of a connection; closing it")
                    loop.call_soon(connection.transport.abort)
                    late = True
                if late:
                    await asyncio.sleep(0)  # polls go first
        return self.should_exit

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and finish the requests in progress."""
        if self._listener:
            self._listener.close()
        await super().shutdown(sockets)
        if self._events:
            self._events.close()
