"""The agent's HTTP server: health, metrics, and readiness for events."""

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from fairwarning.core.errors import Refused
from fairwarning.guest.agent.metrics import CONTENT_TYPE

Metrics = Callable[[], str]
IsReady = Callable[[str], bool]
HasFailed = Callable[[str], bool]


class HealthServer:
    """A small HTTP server: /healthz, /metrics, /ready/EVENT."""

    def __init__(
        self,
        listen: str,
        is_healthy: Callable[[], bool],
        metrics: Metrics,
        is_ready: IsReady,
        has_failed: HasFailed = lambda _: False,
    ) -> None:
        host, _, port = listen.rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            raise Refused("BadConfig", f"listen: {listen!r} is not HOST:PORT")

        class Handler(BaseHTTPRequestHandler):
            timeout = 5  # for a client that sends nothing

            def do_GET(self) -> None:
                status, content_type, body = _respond(
                    self.path, is_healthy, metrics, is_ready, has_failed
                )
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Do not log every request."""

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

        try:
            self._server = Server((host.strip("[]"), int(port)), Handler)
        except (OSError, OverflowError) as error:
            raise Refused("BadConfig", f"listen: cannot listen on {listen}: {error}") from error
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def _respond(
    target: str,
    is_healthy: Callable[[], bool],
    metrics: Metrics,
    is_ready: IsReady,
    has_failed: HasFailed,
) -> tuple[int, str, bytes]:
    path = urlsplit(target).path
    if path == "/healthz":
        healthy = is_healthy()
        health = {"status": "ok" if healthy else "no document lately"}
        return (200 if healthy else 503), "application/json", json.dumps(health).encode()
    if path == "/metrics":
        return 200, CONTENT_TYPE, metrics().encode()
    if path.startswith("/ready/"):
        event = unquote(path.removeprefix("/ready/"))
        readiness = {"ready": is_ready(event), **({"failed": True} if has_failed(event) else {})}
        return 200, "application/json", json.dumps(readiness).encode()
    return 404, "application/json", b'{"error": "use /healthz, /metrics or /ready/EVENT"}'
