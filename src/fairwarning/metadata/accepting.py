"""Accept connections, also when descriptors run out and when the service stops."""

import asyncio
import logging
import resource
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any

from fairwarning.metadata.callers import CallerResolver, Key
from fairwarning.metadata.listeners import BACKLOG

log = logging.getLogger(__name__)

_AT_ONCE = 64  # connections accepted before other callbacks run
_RETRY_SECONDS = 1.0  # after a failed accept, for example without a free descriptor
_WARN_SECONDS = 60.0
_OTHER_DESCRIPTORS = 128  # that the process needs besides listeners and their connections


class AcceptWarning:
    """Logs failed accepts, at most once a minute for all listeners."""

    _next = 0.0

    def warn(self, error: OSError) -> None:
        """Log the error, unless one was logged a moment ago."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _WARN_SECONDS
            log.warning(
                "cannot accept connections: %s; clients wait until a connection closes;"
                " raise the limit of open files, or lower `connections` in [metadata]",
                error.strerror or error,
            )


class Acceptor:
    """Accepts connections from a listening socket, and leaves clients waiting if it cannot."""

    _loop: asyncio.AbstractEventLoop

    def __init__(self, sock: socket.socket, warning: AcceptWarning) -> None:
        self._sock = sock
        self._warning = warning
        self._reading = False
        self._retry: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[object]] = set()

    def start(self) -> None:
        """Accept connections."""
        self._loop = asyncio.get_running_loop()
        self._sock.settimeout(0)
        self._reading = True
        self._loop.add_reader(self._sock, self._accept)

    def _serve(self, accepted: socket.socket, address: str) -> None:
        """Serve a new connection of this address; "" if it has none."""
        raise NotImplementedError

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            if not self._accept_next():
                return

    def _accept_next(self) -> bool:
        """Accept a connection; return whether there may be another one."""
        try:
            accepted, address = self._sock.accept()
        except (BlockingIOError, InterruptedError):
            return False
        except ConnectionAbortedError:
            return True
        except OSError as error:
            self._pause(error)
            return False
        self._serve(accepted, address[0] if address else "")
        return True

    def _connect(
        self,
        make: Callable[[], asyncio.Protocol],
        accepted: socket.socket,
        **options: Any,  # noqa: ANN401  (as asyncio takes them)
    ) -> "asyncio.Task[object]":
        """Hand an accepted connection to its protocol; `options` are those of asyncio."""
        return self._track(self._loop.connect_accepted_socket(make, accepted, **options))

    def _track(self, connecting: Coroutine[Any, Any, object]) -> "asyncio.Task[object]":
        """Run it in a task that is known until the connection is handed over."""
        task: asyncio.Task[object] = self._loop.create_task(connecting)
        self._connecting.add(task)
        task.add_done_callback(self._connected)
        return task

    def _connected(self, task: "asyncio.Task[object]") -> None:
        self._connecting.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, OSError):  # not a reset by the client
            log.error("cannot serve an accepted connection", exc_info=error)

    def _pause(self, error: OSError) -> None:
        """Leave clients in the kernel's queue for a while; the socket would stay readable."""
        self._warning.warn(error)
        if self._reading and self._retry is None:
            self._loop.remove_reader(self._sock)
            self._retry = self._loop.call_later(_RETRY_SECONDS, self._resume)

    def _resume(self) -> None:
        self._retry = None
        self._loop.add_reader(self._sock, self._accept)

    def close(self) -> None:
        """Close the socket."""
        if self._retry is not None:
            self._retry.cancel()
        elif self._reading and self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
        self._sock.close()


class Listener(Acceptor):
    """A listening socket, and the way to identify the callers that connect to it.

    uvloop accepts in C, a quarter cheaper for each connection. But it closes the connections of
    waiting clients when descriptors run out, so it accepts only if that cannot happen. Otherwise,
    and on asyncio's own loop, `_accept` leaves clients waiting until a descriptor is free.
    """

    def __init__(
        self,
        sock: socket.socket,
        resolve_key: CallerResolver,
        warning: AcceptWarning,
        *,
        proxy: bool = False,
    ) -> None:
        """`proxy` means that clients may use it as a proxy for 169.254.169.254."""
        super().__init__(sock, warning)
        self.resolve_key = resolve_key
        self.proxy = proxy
        self._server: asyncio.Server | None = None

    async def listen(self, make: Callable[[], asyncio.Protocol], descriptors: int) -> None:
        """Accept connections; `descriptors` is how many all listeners and connections may need."""
        loop = self._loop = asyncio.get_running_loop()
        self._make = make
        if isinstance(loop, asyncio.SelectorEventLoop) or _may_run_out(descriptors):
            self.start()
        else:
            self._sock.settimeout(0)
            self._server = await loop.create_server(make, sock=self._sock, backlog=BACKLOG)

    def _serve(self, accepted: socket.socket, _: str) -> None:
        self._connect(self._make, accepted)

    async def stop(self) -> None:
        """Accept the clients that have connected, and close the socket."""
        for _ in range(BACKLOG):
            if self._sock.fileno() < 0 or not self._accept_next():
                break
        self.close()
        if self._connecting:
            await asyncio.wait(self._connecting)

    def refuse(self) -> None:
        """Close the socket, and refuse connections that are accepted but not yet served."""
        self.resolve_key = _nobody
        self.close()

    def close(self) -> None:
        """Close the socket."""
        if self._server is not None:
            self._server.close()
        super().close()


def _nobody(_: asyncio.BaseTransport) -> Key | None:
    return None


def _may_run_out(descriptors: int) -> bool:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return allowed != resource.RLIM_INFINITY and allowed < descriptors + _OTHER_DESCRIPTORS
