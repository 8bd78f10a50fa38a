"""Lazy start of the console and ARM servers.

They start on the first connection, so a process that only serves polls stays small. A server that
cannot start is tried again until it can (IB5).
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from fairwarning.core.errors import FairwarningError
from fairwarning.core.times import rfc1123
from fairwarning.server.ports.refusals import ConnectionCounter
from fairwarning.service.health import PartHealth

if TYPE_CHECKING:
    from ssl import SSLContext

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from fairwarning.server.ports.server import PortServer

log = logging.getLogger(__name__)

_STOP_SECONDS = 2
_CHECK_SECONDS = 0.25
_RETRY_SECONDS = 1.0  # between two attempts to start; a flood of connections causes no other


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
        self._problem = ""  # why it does not start
        self._server: PortServer | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(listener, self._start)

    def _start(self) -> None:
        self._loop.remove_reader(self._listener)
        self._task = self._loop.create_task(self._serve(), name="lazy-server")

    async def _serve(self) -> None:
        while (server := await self._try_to_start()) is None:
            self._loop.add_reader(self._listener, self._reject)
            try:
                await asyncio.sleep(_RETRY_SECONDS)
            finally:
                self._loop.remove_reader(self._listener)
        self._server = server
        await server.serve(sockets=[self._listener])

    async def _try_to_start(self) -> "PortServer | None":
        # In a thread, because importing the application must not delay polls.
        try:
            server = await asyncio.to_thread(self._load_server)
            server.prepare(self._listener)
        except Exception as error:  # noqa: BLE001  (whatever it is, the port must come back)
            self._report(error)
            return None
        if self._problem:
            log.warning("the %s port serves connections again", self._counter.name)
            self._problem = ""
        return server

    def _load_server(self) -> "PortServer":
        import uvicorn  # noqa: PLC0415  (see above)

        from fairwarning.server.ports.server import PortServer  # noqa: PLC0415  (see above)

        tls = self._tls
        config = uvicorn.Config(
            _dated(self._load(), self._now, Turns(self._loop)),
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
        config.load()  # makes the TLS context
        return PortServer(config, self._counter, self._now)

    def _report(self, error: Exception) -> None:
        """Log why the server cannot start, once for each reason."""
        known = isinstance(error, FairwarningError | OSError)
        code = error.code if isinstance(error, FairwarningError) else type(error).__name__
        reason = error.strerror if isinstance(error, OSError) and error.strerror else code
        problem = f"cannot serve connections ({reason}) and retries; see the log"
        if problem != self._problem:
            self._problem = problem
            log.error(
                "the %s port cannot serve connections and closes them; retrying every second: %s",
                *(self._counter.name, error),
                exc_info=None if known else error,
            )

    def _reject(self) -> None:
        """Close a connection, so that its client fails at once."""
        try:
            accepted, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # no free descriptor: clients wait for the next attempt
            self._loop.remove_reader(self._listener)
        else:
            accepted.close()

    def health(self) -> PartHealth:
        """Whether the port serves connections; before the first one, it is not known yet."""
        accepting = self._server.accept_problem if self._server else ""
        return PartHealth(name=self._counter.name, problem=self._problem or accepting)

    async def close(self) -> None:
        """Finish the requests in progress, and stop."""
        if self._task is None:
            self._loop.remove_reader(self._listener)
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


class Turns:
    """A queue for a turn of the event loop, in which one request begins: polls go first (IB7)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = False

    async def take(self) -> None:
        """Wait for a turn that no other request has."""
        if self._taken:
            turn = self._loop.create_future()
            self._waiting.append(turn)
            await turn
        else:
            self._taken = True
            self._loop.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        while self._waiting and self._waiting[0].done():  # cancelled
            self._waiting.popleft()
        self._taken = bool(self._waiting)
        if self._taken:
            self._waiting.popleft().set_result(None)
            self._loop.call_soon(self._pass_on)


def _dated(application: "ASGIApp", now: Callable[[], float], turns: Turns) -> "ASGIApp":
    """Return the application with fleet time in the `Date` header of every response (E11).

    Its requests take turns.
    """

    async def dated(scope: "Scope", receive: "Receive", send: "Send") -> None:
        async def send_dated(message: "Message") -> None:
            if message["type"] == "http.response.start":
                date = rfc1123(int(now())).encode()
                message["headers"] = [(b"date", date), *message["headers"]]
            await send(message)

        await turns.take()
        await application(scope, receive, send_dated)

    return dated
