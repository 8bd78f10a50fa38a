"""The agent's HTTP server: health and metrics.

One thread serves all clients, of which neither a slow one nor a thousand silent ones keep it from
answering another. Not by `http.server`, which takes 7 MiB.
"""

from __future__ import annotations

import errno
import json
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

from fairwarning.core.errors import Refused, reason_of
from fairwarning.guest.agent.agent_metrics import CONTENT_TYPE

MOST_CONNECTIONS = 32  # a new one closes the oldest
CONNECTION_SECONDS = 5.0  # for the request and the response
_REQUEST_BYTES = 16 * 1024
_LOOK_SECONDS = 0.5
_RETRY_SECONDS = 5.0  # while the port is in use
_PAUSE_SECONDS = 0.05  # after a connection that could not be accepted

log = logging.getLogger(__name__)


class _Connection:
    """A client: the part of its request that has arrived, then the part of the response to send."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.end = time.monotonic() + CONNECTION_SECONDS
        self.request = b""
        self.response = b""


class HealthServer:
    """A small HTTP server: /healthz, /metrics."""

    def __init__(
        self, listen: str, find_problem: Callable[[], str], metrics: Callable[[], str]
    ) -> None:
        """`find_problem` returns why the agent is not healthy; an empty text if it is.

        Raise `Refused` for an address that cannot be used. A port in use is waited for.
        """
        self._listen = listen
        self._find_problem = find_problem
        self._metrics = metrics
        self._connections: dict[socket.socket, _Connection] = {}  # the oldest first
        self._selector = selectors.DefaultSelector()
        self._listener = self._open()
        if self._listener is None:
            log.error("listen: %s is in use: no health and no metrics; retrying", listen)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port, which the system chooses for 0."""
        assert self._listener is not None
        port: int = self._listener.getsockname()[1]
        return port

    def _open(self) -> socket.socket | None:
        """Listen; return None while the port is in use."""
        host, _, port = self._listen.rpartition(":")
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = socket.create_server(
                (host.strip("[]"), int(port)),
                family=family,
                dualstack_ipv6=family == socket.AF_INET6 and socket.has_dualstack_ipv6(),
            )
            listener.setblocking(False)  # noqa: FBT003  (as the standard library has it)
            self._selector.register(listener, selectors.EVENT_READ)
        except (OSError, OverflowError) as error:
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                return None
            text = f"listen: cannot listen on {self._listen}: {reason_of(error)}"
            raise Refused("BadConfig", text) from error
        return listener

    def close(self) -> None:
        """Stop the server."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        if self._listener is None:
            self._wait_for_port()
        if self._listener is not None:
            self._serve(self._listener)
            self._listener.close()
        self._selector.close()

    def _wait_for_port(self) -> None:
        while self._listener is None and not self._stopped.wait(_RETRY_SECONDS):
            with suppress(Refused):  # the address is gone for a while
                self._listener = self._open()
        if self._listener is not None:
            log.info("listen: %s serves health and metrics now", self._listen)

    def _serve(self, listener: socket.socket) -> None:
        while not self._stopped.is_set():
            for key, _ in self._selector.select(_LOOK_SECONDS):
                if key.fileobj is listener:
                    self._accept(listener)
                elif connection := self._connections.get(key.fileobj):  # type: ignore[call-overload]
                    self._continue(connection)
            for connection in list(self._connections.values()):
                if time.monotonic() > connection.end:
                    self._close(connection)
        for connection in list(self._connections.values()):
            self._close(connection)

    def _accept(self, listener: socket.socket) -> None:
        connected: socket.socket | None = None
        try:
            connected, _ = listener.accept()
            connected.setblocking(False)  # noqa: FBT003  (as the standard library has it)
            self._selector.register(connected, selectors.EVENT_READ)
        except OSError:  # the client is gone, or no descriptor or watch is free
            if connected is not None:
                connected.close()
            self._stopped.wait(_PAUSE_SECONDS)
            return
        self._connections[connected] = _Connection(connected)
        if len(self._connections) > MOST_CONNECTIONS:
            self._close(next(iter(self._connections.values())))

    def _continue(self, connection: _Connection) -> None:
        """Receive or send what is possible now."""
        try:
            if not connection.response:
                data = connection.socket.recv(_REQUEST_BYTES)
                connection.request += data
                if data and not _is_complete(connection.request):
                    return
                connection.response = self._respond(connection.request)
                self._selector.modify(connection.socket, selectors.EVENT_WRITE)
            sent = connection.socket.send(connection.response)
            connection.response = connection.response[sent:]
        except BlockingIOError:
            return
        except OSError:  # the client is gone
            connection.response = b""
        except Exception:
            log.exception("the health server cannot answer")
            connection.response = b""
        if not connection.response:
            self._close(connection)

    def _close(self, connection: _Connection) -> None:
        del self._connections[connection.socket]
        self._selector.unregister(connection.socket)
        connection.socket.close()

    def _respond(self, request: bytes) -> bytes:
        words = request.split(b"\n", 1)[0].split()
        if len(words) < 2 or words[0] != b"GET":  # noqa: PLR2004  (a method and a path)
            return _serialize(405, "application/json", b'{"error": "use GET"}')
        path = words[1].decode("latin-1").partition("?")[0]
        if path == "/healthz":
            problem = self._find_problem()
            body = json.dumps({"status": problem or "ok"}).encode()
            return _serialize(503 if problem else 200, "application/json", body)
        if path == "/metrics":
            return _serialize(200, CONTENT_TYPE, self._metrics().encode())
        return _serialize(404, "application/json", b'{"error": "use /healthz or /metrics"}')


def _is_complete(request: bytes) -> bool:
    """Whether the headers have arrived, or more than a request has."""
    text = request.replace(b"\r", b"")
    return b"\n\n" in text or len(request) >= _REQUEST_BYTES


def _serialize(status: int, content_type: str, body: bytes) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
