"""Accept connections, also when descriptors run out and when the service stops."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable

from fairwarning.metadata.callers import CallerResolver, PeerAddress
from fairwarning.metadata.listeners import BACKLOG

log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0  # after a failed accept, for example without a free descriptor
_WARN_SECONDS = 60.0


class AcceptWarning:
    """Logs failed accepts, at most once a minute for all listeners."""

    def __init__(self) -> None:
        self._next = 0.0
        self._paused: dict[Acceptor, str] = {}

    @property
    def problem(self) -> str:
        """Why a listener accepts no connections now; empty if all do."""
        return next(iter(self._paused.values()), "")

    def resumed(self, acceptor: "Acceptor") -> None:
        """Note that a listener accepts connections again, or is closed."""
        self._paused.pop(acceptor, None)

    def warn(self, acceptor: "Acceptor", error: OSError) -> None:
        """Log the error, unless one was logged a moment ago."""
        self._paused[acceptor] = f"cannot accept connections: {error.strerror or error}"
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
    _at_once = 64  # connections accepted before other callbacks run

    def __init__(self, sock: socket.socket, warning: AcceptWarning) -> None:
        self._sock = sock
        self._warning = warning
        # `socket.accept` calls this and then makes objects that cost more than the system call.
        self._accept_descriptor: Callable[[], tuple[int, PeerAddress]] = sock._accept  # type: ignore[attr-defined]  # noqa: SLF001  (see above)
        self._let_others_run = False  # before the next connection is accepted
        self._reading = False
        self._retry: asyncio.TimerHandle | None = None

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
        for _ in range(self._at_once):
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

    def _pause(self, error: OSError) -> None:
        """Leave clients in the kernel's queue for a while; the socket would stay readable."""
        self._warning.warn(self, error)
        if self._reading and self._retry is None:
            self._loop.remove_reader(self._sock)
            self._retry = self._loop.call_later(_RETRY_SECONDS, self._resume)

    def _resume(self) -> None:
        self._retry = None
        self._warning.resumed(self)
        self._loop.add_reader(self._sock, self._accept)

    def close(self) -> None:
        """Close the socket."""
        self._warning.resumed(self)
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
