"""Consoles are loaded when somebody first knocks: who only polls does not pay for them."""

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
_CALM_SECONDS = 0.25


class LazyServer:
    """A listening socket that becomes a server at its first connection; with `tls`, over TLS."""

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
        asyncio.get_running_loop().add_reader(listener, self._rung)

    def _rung(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._task = asyncio.create_task(self._serve(), name="doorbell")

    async def _serve(self) -> None:
        # In a thread, because loading takes a while and polls must not wait for it.
        try:
            self._server = await asyncio.to_thread(_prepare, self._load, self._tls)
        except Exception:
            log.exception("what was asked for cannot be loaded")
            self._listener.close()  # nobody is to wait for it
            return
        await self._server.serve(sockets=[self._listener])

    async def close(self) -> None:
        """Answer what is under way, and go."""
        if self._task is None:
            asyncio.get_running_loop().remove_reader(self._listener)
        else:
            if self._server is not None:
                self._server.should_exit = True
                await self._hurry(self._server)
            else:
                self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._listener.close()

    async def _hurry(self, server: "uvicorn.Server") -> None:
        """Wait for answers under way, not for clients that keep connections and ask nothing."""
        assert self._task is not None
        await asyncio.wait([self._task], timeout=_CALM_SECONDS)
        while not self._task.done() and server.server_state.tasks:
            await asyncio.wait([self._task], timeout=_CALM_SECONDS)
        server.force_exit = True


def _prepare(
    load: "Callable[[], ASGIApp]", tls: "Callable[[], SSLContext] | None"
) -> "uvicorn.Server":
    import uvicorn  # noqa: PLC0415  (see above)

    class Quiet(uvicorn.Server):
        """Signals are the program's own business."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    return Quiet(
        uvicorn.Config(
            load(),
            ssl_context_factory=(lambda *_: tls()) if tls else None,
            proxy_headers=False,  # on by default, and a caller could forge its address
            server_header=False,
            access_log=False,
            log_config=None,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
    )
