"""Accept connections, also when descriptors run out and when the service stops."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any

from fairwarning.metadata.callers import CallerResolver, PeerAddress
from fairwarning.metadata.listeners import BACKLOG

log = logging.getLogger(__name__)

_AT_ONCE = 64  # connections accepted before other callbacks run
_RETRY_SECONDS = 1.0  # after a failed accept, for example without a free descriptor
_WARN_SECONDS = 60.0


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
        # `socket.accept` calls this and then makes objects that cost more than the system call.
        self._accept_descriptor: Callable[[], tuple[int, PeerAddress]] = sock._accept  # type: ignore[attr-defined]  # noqa: SLF001  (see above)
        self._let_others_run = False  # before the next connection is accepted
        self._reading = False
        self._retry: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[object]] = set()

    def start(self) -> None:
        """Accept connections."""
        self._loop = asyncio.get_running_loop()
        self._sock.settimeout(0)
        self._reading = True
        self._loop.add_reader(self._sock, self._accept)

    def _serve(self, descriptor: int, address: PeerAddress) -> None:
        """Serve the new connection that has this descriptor."""
        raise NotImplementedError

    def _accept(self) -> None:
        self._let_others_run = False
        for _ in range(_AT_ONCE):
            if not self._accept_next() or self._let_others_run:
                return

    def _accept_next(self) -> bool:
        """Accept a connection; return whether there may be another one."""
        try:
            descriptor, address = self._accept_descriptor()
        except (BlockingIOError, InterruptedError):
            return False
        except ConnectionAbortedError:
            return True
        except OSError as error:
            self._pause(error)
            return False
        self._serve(descriptor, address)
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
    """A listening socket, and the way to identify the callers that connect to it."""

    def __init__(
        self,
        sock: socket.socket,
        resolve_key: CallerResolver,
        warning: AcceptWarning,
        serve: "Callable[[Listener, int, PeerAddress], bool]",
        *,
        proxy: bool = False,
    ) -> None:
        """`serve` returns whether the next connection may be accepted at once.

        `proxy` means that clients may use the listener as a proxy for 169.254.169.254.
        """
        super().__init__(sock, warning)
        self.family = int(sock.family)
        self.resolve_key = resolve_key
        self.proxy = proxy
        self._serve_accepted = serve
        if sock.family != socket.AF_UNIX:  # inherited by the connections
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _serve(self, descriptor: int, address: PeerAddress) -> None:
        self._let_others_run = not self._serve_accepted(self, descriptor, address)

    def stop(self) -> None:
        """Accept the clients that have connected, and close the socket."""
        for _ in range(BACKLOG):
            if self._sock.fileno() < 0 or not self._accept_next():
                break
        self.close()
