"""Answers as bytes: status line, headers and body in one piece, ready to be written."""

import json
from collections.abc import Sequence

from fairwarning.core.record import short_record

NOT_MODIFIED = 304
JSON = "application/json; charset=utf-8"

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_REASONS = {
    200: "OK",
    304: "Not Modified",
    400: "Bad Request",
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
"""Every status this endpoint gives; 410 and 500 only on demand (M21)."""


@short_record
class RequestRefused(Exception):
    """Why a request is not served: what the caller reads, and the reason it is counted under."""

    status: int
    reason: str
    error: str
    headers: str = ""
    newest: Sequence[str] = ()

    def answer(self, *, close: bool) -> bytes:
        """As the wire says it: an object with an `error` string."""
        body: dict[str, object] = {"error": self.error}
        if self.newest:
            body["newest-versions"] = list(self.newest)
        return render(self.status, json.dumps(body).encode(), close=close, headers=self.headers)


def render(
    status: int, body: bytes = b"", *, kind: str = JSON, close: bool = False, headers: str = ""
) -> bytes:
    """A whole answer; `headers` are lines that end as lines do."""
    lines = f"HTTP/1.1 {status} {_REASONS[status]}\r\n"
    if body:
        lines += f"Content-Type: {kind}\r\n"
    if status != NOT_MODIFIED:  # which has no body, and says nothing of the one it stands for
        lines += f"Content-Length: {len(body)}\r\n"
    if close:
        lines += "Connection: close\r\n"
    return f"{lines}{headers}\r\n".encode("latin-1") + body
