"""Lazy start of the console and ARM servers.

They start on the first connection, so a process that only serves polls stays small.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext

    import uvicorn
    from starlette.types import ASGIApp

log = logging.getLogger(__name__)

_STOP_SECONDS = 2
_CHECK_SECONDS = 0.25


class LazyServer:
    """A listening socket whose server starts on the first connection; with `tls`, over TLS."""

    def __init__(
        self,
        listener: socket.socket,
        load: "Callable[[], ASGIApp]",
        tls: "Callable[[], SSLContext] | None" = None,
    ) -> None:
        self._listener = listener
        self._load = load
        self._tls = tls
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None
        asyncio.get_running_loop().add_reader(listener, self._start)

    def _start(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._task = asyncio.create_task(self._serve(), name="lazy-server")

    async def _serve(self) -> None:
        # In a thread, because importing the application must not delay polls.
        try:
            self._server = await asyncio.to_thread(_prepare, self._load, self._tls)
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

    async def _finish_requests(self, server: "uvicorn.Server") -> None:
        """Wait for requests in progress, but not for idle connections."""
        assert self._task is not None
        await asyncio.wait([self._task], timeout=_CHECK_SECONDS)
        while not self._task.done() and server.server_state.tasks:
            await asyncio.wait([self._task], timeout=_CHECK_SECONDS)
        server.force_exit = True


def _prepare(
    load: "Callable[[], ASGIApp]", tls: "Callable[[], SSLContext] | None"
) -> "uvicorn.Server":
    import uvicorn  # noqa: PLC0415  (see above)

    class Quiet(uvicorn.Server):
        """A server that leaves signals to the program."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    return Quiet(
        uvicorn.Config(
            load(),
            ssl_context_factory=(lambda *_: tls()) if tls else None,
            proxy_headers=False,  # the default would let a client forge its address
            server_header=False,
            access_log=False,
            log_config=None,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
    )
