"""Dates that the endpoint sends, and its time from them: NotBefore is a time of that clock.

A machine whose own clock is wrong would compute a wrong notice. A monotonic clock of the machine
carries the endpoint's time from one response to the next, so that steps of the machine's own clock
have no effect either.
"""

from __future__ import annotations

from fairwarning.core.errors import Refused
from fairwarning.core.times import parse_date

_RESOLUTION_SECONDS = 1.0  # of `Date`
_LATEST = 32_503_680_000  # the year 3000


def read_date(value: object) -> int | None:
    """Return the epoch seconds of a date in either format; None if it is unknown.

    A date before 1970 or after 2999 says nothing about an event, as .NET's `DateTime.MinValue`, and
    could not be used with other times: `datetime` ends soon after.
    """
    try:
        seconds = parse_date(value) if isinstance(value, str) else -1
    except (Refused, ValueError, OverflowError, OSError):
        return None
    return seconds if 0 <= seconds < _LATEST else None


class EndpointClock:
    """The endpoint's time relative to a monotonic clock. If in doubt, it is the later time."""

    def __init__(self) -> None:
        self._bounds: tuple[float, float] | None = None  # endpoint's time minus monotonic time

    def observe(self, date: str, sent_at: float, received_at: float) -> None:
        """Take the `Date` of a response into account; ignore one that is missing or unreadable.

        The endpoint read its clock between the two times. Several responses narrow the bounds; a
        response outside of them shows that one of the clocks was moved.
        """
        seconds = read_date(date)
        if seconds is None:
            return
        least, most = seconds - received_at, seconds + _RESOLUTION_SECONDS - sent_at
        if self._bounds is not None:
            known_least, known_most = self._bounds
            if least <= known_most and most >= known_least:
                least, most = max(least, known_least), min(most, known_most)
        self._bounds = least, most  # at once, as another thread may read the time

    def time(self, now: float) -> float | None:
        """Return the endpoint's time at a time of the monotonic clock; None if it is unknown."""
        if self._bounds is None:
            return None
        least, most = self._bounds
        # A held request widens the second bound, so the first one limits it.
        return now + min(most, least + _RESOLUTION_SECONDS)
