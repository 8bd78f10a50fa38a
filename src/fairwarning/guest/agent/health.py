"""What others may ask an agent: whether it is well, its figures, and what it is ready for."""

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from fairwarning.core.errors import Refused

Figures = Callable[[], dict[str, float]]
Ready = Callable[[str], bool]


class HealthServer:
    """A small server beside the agent: /healthz, /metrics, /ready/EVENT."""

    def __init__(
        self, listen: str, well: Callable[[], bool], figures: Figures, ready: Ready
    ) -> None:
        host, _, port = listen.rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            raise Refused("BadConfig", f"listen: {listen!r} is not HOST:PORT")

        class Handler(BaseHTTPRequestHandler):
            timeout = 5  # a caller that says nothing is not waited for

            def do_GET(self) -> None:
                status, kind, body = _answer(self.path, well, figures, ready)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nobody wants a line for each look."""

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
        """Take no more callers."""
        self._server.shutdown()
        self._server.server_close()


def _answer(
    path: str, well: Callable[[], bool], figures: Figures, ready: Ready
) -> tuple[int, str, bytes]:
    where = urlsplit(path).path
    if where == "/healthz":
        fine = well()
        body = {"status": "ok" if fine else "no document lately"}
        return (200 if fine else 503), "application/json", json.dumps(body).encode()
    if where == "/metrics":
        lines = [f"fairwarning_agent_{name} {_digits(n)}" for name, n in figures().items()]
        return 200, "text/plain; version=0.0.4", "\n".join([*lines, ""]).encode()
    if where.startswith("/ready/"):
        told = {"ready": ready(unquote(where.removeprefix("/ready/")))}
        return 200, "application/json", json.dumps(told).encode()
    return 404, "application/json", b'{"error": "there are /healthz, /metrics and /ready/EVENT"}'


def _digits(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
