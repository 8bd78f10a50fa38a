"""HTTP responses as bytes: status line, headers and body in one piece; and how many were sent."""

import json
from collections import Counter
from collections.abc import Sequence
from time import monotonic

from fairwarning.core.record import short_record
from fairwarning.core.times import rfc1123
from fairwarning.service.clock import Clock, VirtualClock
from fairwarning.service.documents import DocumentCache

NOT_MODIFIED = 304
JSON = "application/json; charset=utf-8"

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
OK_LINE = b"HTTP/1.1 200 OK\r\n"
_LINE_END = b"\r\n"

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


class DateHeader:
    """The `Date` header, so that a machine with a wrong clock computes its notice (E11).

    It is wall time, or the time that a pending event was announced in if the clock was stepped
    since; the latest of these, so that no event seems to leave more time than it does. The header
    is rendered once for each second, not for each poll.
    """

    def __init__(self, clock: Clock, documents: DocumentCache) -> None:
        self._clock = clock
        self._documents = documents
        self._line_end_and_header = b""
        self.ok = b""  # the status line of a 200 response, and the header
        self.expires_at = 0.0
        """By `time.monotonic`: when the second ends, or documents may become stale (IK3)."""
        self._promises = 0  # how many entries of `DocumentCache.promised` it takes account of
        if isinstance(clock, VirtualClock):
            clock.watchers.append(self.expire)

    def expire(self) -> None:
        """Render the header again for the next response."""
        self.expires_at = 0.0

    def add_to(self, response: bytes) -> bytes:
        """Return a rendered response with the header."""
        if monotonic() >= self.expires_at or len(self._documents.promised) != self._promises:
            self._render()
        return response.replace(_LINE_END, self._line_end_and_header, 1)

    def _render(self) -> None:
        now, rate = self._clock.now(), self._clock.rate
        header = f"Date: {rfc1123(int(now) - self._ahead_seconds(now))}\r\n".encode()
        self.ok = OK_LINE + header
        self._line_end_and_header = _LINE_END + header
        second_ends = monotonic() + (1 - now % 1) / rate if rate else float("inf")
        self.expires_at = min(second_ends, self._documents.fresh_until or second_ends)

    def _ahead_seconds(self, now: float) -> int:
        """By how much fleet time is ahead of the header."""
        promised = self._documents.promised
        for ahead in [ahead for ahead, until in promised.items() if until <= now]:
            del promised[ahead]
        self._promises = len(promised)
        return min(promised) if promised else self._clock.ahead_seconds()


class RequestCounts:
    """Plain numbers, so that counting costs one addition."""

    def __init__(self) -> None:
        self.polls = 0  # documents sent, and 304 responses
        self.approvals = 0  # accepted
        self.descriptions = 0  # instance metadata and versions
        self.held = 0  # long polls held at the moment
        self.refused: Counter[str] = Counter()  # by reason
        self.faults: Counter[str] = Counter()  # injected (M21), by kind
