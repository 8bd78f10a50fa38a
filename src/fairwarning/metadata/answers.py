"""HTTP responses as bytes: status line, headers and body in one piece; `dates` adds the date."""

import json
from collections.abc import Sequence

from fairwarning.core.record import short_record

NOT_MODIFIED = 304
JSON = "application/json; charset=utf-8"

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
OK_LINE = b"HTTP/1.1 200 OK\r\n"

_REASONS = {
    200: "OK",
    304: "Not Modified",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    410: "Gone",
    413: "Content Too Large",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
"""Every status this endpoint sends; 410 and 500 only as injected faults (M21), 403 only to clients
that take it for their proxy."""


@short_record
class Refusal:
    """What the client of a refused request gets, and the reason in metrics."""

    status: int
    reason: str
    error: str
    headers: str = ""
    newest: Sequence[str] = ()

    def to_bytes(self, *, close: bool) -> bytes:
        """Return the response: a JSON object with an `error` string."""
        body: dict[str, object] = {"error": self.error}
        if self.newest:
            body["newest-versions"] = list(self.newest)
        return render(self.status, json.dumps(body).encode(), close=close, headers=self.headers)


class RequestRefused(Exception):
    """A request is refused. Each time a new one: an exception keeps all frames that it has left."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.error)
        self.refusal = refusal


def render(
    status: int, body: bytes = b"", *, kind: str = JSON, close: bool = False, headers: str = ""
) -> bytes:
    """Return a complete response but for its date; each line in `headers` must end with CRLF."""
    lines = f"HTTP/1.1 {status} {_REASONS[status]}\r\n"
    if body:
        lines += f"Content-Type: {kind}\r\n"
    if status != NOT_MODIFIED:  # a 304 has neither a body nor a Content-Length
        lines += f"Content-Length: {len(body)}\r\n"
    if close:
        lines += "Connection: close\r\n"
    return f"{lines}{headers}\r\n".encode("latin-1") + body
