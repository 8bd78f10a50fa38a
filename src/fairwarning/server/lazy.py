"""Lazy start of the console and ARM servers.

They start on the first connection, so a process that only serves polls stays small.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from fairwarning.core.times import rfc1123
from fairwarning.server.ports.counting import ConnectionCounter

if TYPE_CHECKING:
    from ssl import SSLContext

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from fairwarning.server.ports.server import PortServer

log = logging.getLogger(__name__)

_STOP_SECONDS = 2
_CHECK_SECONDS = 0.25


class LazyServer:
    """A listening socket whose server starts on the first connection; with `tls`, over TLS."""

    def __init__(
        self,
        listener: socket.socket,
        load: "Callable[[], ASGIApp]",
        counter: ConnectionCounter,
        now: Callable[[], float],
        tls: "Callable[[], SSLContext] | None" = None,
    ) -> None:
        """`now` is fleet time, for the `Date` header of every response."""
        self._listener = listener
        self._counter = counter
        self._now = now
        self._load = load
        self._tls = tls
        self._server: PortServer | None = None
        self._task: asyncio.Task[None] | None = None
        asyncio.get_running_loop().add_reader(listener, self._start)

    def _start(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._task = asyncio.create_task(self._serve(), name="lazy-server")

    async def _serve(self) -> None:
        # In a thread, because importing the application must not delay polls.
        try:
            self._server = await asyncio.to_thread(
                _prepare, self._load, self._counter, self._now, self._tls
            )
        except Exception:
            log.exception("cannot start the server on %s", self._listener.getsockname())
            self._listener.close()  # so that clients fail at once
            return
        await self._server.serve(sockets=[self._listener])

    async def close(self) -> None:
        """Finish the requests in progress, and stop."""
        if self._task is None:
            asyncio.get_running_loop().remove_reader(self._listener)
        else:
            if self._server is not None:
                self._server.should_exit = True
                await self._finish_requests(self._server)
            else:
                self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._listener.close()

    async def _finish_requests(self, server: "PortServer") -> None:
        """Wait for requests in progress, but not for idle connections."""
        assert self._task is not None
        await asyncio.wait([self._task], timeout=_CHECK_SECONDS)
        while not self._task.done() and server.server_state.tasks:
            await asyncio.wait([self._task], timeout=_CHECK_SECONDS)
        server.force_exit = True


def _prepare(
    load: "Callable[[], ASGIApp]",
    counter: ConnectionCounter,
    now: Callable[[], float],
    tls: "Callable[[], SSLContext] | None",
) -> "PortServer":
    import uvicorn  # noqa: PLC0415  (see above)

    from fairwarning.server.ports.server import PortServer  # noqa: PLC0415  (see above)

    config = uvicorn.Config(
        _dated(load(), now),
        ssl_context_factory=(lambda *_: tls()) if tls else None,
        proxy_headers=False,  # the default would let a client forge its address
        server_header=False,
        date_header=False,  # the default is the host's time, not the fleet's
        access_log=False,
        log_config=None,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    return PortServer(config, counter, now)


def _dated(application: "ASGIApp", now: Callable[[], float]) -> "ASGIApp":
    """Return the application with fleet time in the `Date` header of every response (E11)."""

    async def dated(scope: "Scope", receive: "Receive", send: "Send") -> None:
        async def send_dated(message: "Message") -> None:
            if message["type"] == "http.response.start":
                date = rfc1123(int(now())).encode()
                message["headers"] = [(b"date", date), *message["headers"]]
            await send(message)

        await application(scope, receive, send_dated)

    return dated
