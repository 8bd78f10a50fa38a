"""The agent's HTTP server: health, metrics, and readiness for events.

Not by `http.server`, which takes 7 MiB.
"""

import json
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from socketserver import StreamRequestHandler, ThreadingTCPServer
from urllib.parse import unquote, urlsplit

from fairwarning.core.errors import Refused, reason_of
from fairwarning.guest.agent.metrics import CONTENT_TYPE

Metrics = Callable[[], str]
IsReady = Callable[[str], bool]
HasFailed = Callable[[str], bool]
_LINE_BYTES = 64 * 1024
_HEADERS = 100


class HealthServer:
    """A small HTTP server: /healthz, /metrics, /ready/EVENT."""

    def __init__(
        self,
        listen: str,
        find_problem: Callable[[], str],
        metrics: Metrics,
        is_ready: IsReady,
        has_failed: HasFailed = lambda _: False,
    ) -> None:
        """`find_problem` returns why the agent is not healthy; an empty text if it is."""
        host, _, port = listen.rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            raise Refused("BadConfig", f"listen: {listen!r} is not HOST:PORT")

        class Handler(StreamRequestHandler):
            timeout = 5  # for a client that sends nothing

            def handle(self) -> None:
                words = self.rfile.readline(_LINE_BYTES).split()
                for _ in range(_HEADERS):
                    if not self.rfile.readline(_LINE_BYTES).strip():
                        break
                if len(words) > 1 and words[0] == b"GET":
                    path = words[1].decode("latin-1")
                    answer = _respond(path, find_problem, metrics, is_ready, has_failed)
                else:
                    answer = 405, "application/json", b'{"error": "use GET"}'
                self.wfile.write(_serialize(*answer))

        class Server(ThreadingTCPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_: object) -> None:
                """Do not log clients that went away."""

        try:
            self._server = Server((host.strip("[]"), int(port)), Handler)
        except (OSError, OverflowError) as error:
            raise Refused(
                "BadConfig", f"listen: cannot listen on {listen}: {reason_of(error)}"
            ) from error
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def _serialize(status: int, content_type: str, body: bytes) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _respond(
    target: str,
    find_problem: Callable[[], str],
    metrics: Metrics,
    is_ready: IsReady,
    has_failed: HasFailed,
) -> tuple[int, str, bytes]:
    path = urlsplit(target).path
    if path == "/healthz":
        problem = find_problem()
        health = {"status": problem or "ok"}
        return (503 if problem else 200), "application/json", json.dumps(health).encode()
    if path == "/metrics":
        return 200, CONTENT_TYPE, metrics().encode()
    if path.startswith("/ready/"):
        event = unquote(path.removeprefix("/ready/"))
        readiness = {"ready": is_ready(event), **({"failed": True} if has_failed(event) else {})}
        return 200, "application/json", json.dumps(readiness).encode()
    return 404, "application/json", b'{"error": "use /healthz, /metrics or /ready/EVENT"}'
