"""Dates that the endpoint sends."""

from __future__ import annotations

from fairwarning.core.errors import Refused
from fairwarning.core.times import parse_date

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
