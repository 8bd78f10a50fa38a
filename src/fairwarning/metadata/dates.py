"""The `Date` header, so that a machine with a wrong clock computes its notice (E11).

It is wall time, or the time that a pending event was announced in if the clock was stepped since;
the latest of these, so that no event seems to leave more time than it does. The header is rendered
once for each second, not for each poll.
"""

from time import monotonic

from fairwarning.core.times import rfc1123
from fairwarning.metadata.answers import OK_LINE
from fairwarning.service.clock import Clock, VirtualClock
from fairwarning.service.documents import DocumentCache

_LINE_END = b"\r\n"


class DateHeader:
    """The header for the current second."""

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
