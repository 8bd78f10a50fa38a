"""Dates and durations as the document spells them. The guest side uses this module too."""

import re
from datetime import datetime, timezone
from functools import lru_cache
from time import gmtime

from fairwarning.core.errors import Refused

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Compiled by `re` when first used, as a start needs few of them.
_DURATION = (
    r"P(?:(?P<days>[0-9]{1,5})D)?"
    r"(?:T(?:(?P<hours>[0-9]{1,5})H)?(?:(?P<minutes>[0-9]{1,6})M)?(?:(?P<seconds>[0-9]{1,7})S)?)?"
)
_RFC1123 = (
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) "
    r"([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT"
)


def rfc1123(epoch_seconds: int) -> str:
    """The date as HTTP writes it: `Mon, 19 Sep 2016 18:29:47 GMT`, whatever the locale."""
    t = gmtime(epoch_seconds)
    return (
        f"{_DAYS[t.tm_wday]}, {t.tm_mday:02d} {_MONTHS[t.tm_mon - 1]} {t.tm_year:04d} "
        f"{t.tm_hour:02d}:{t.tm_min:02d}:{t.tm_sec:02d} GMT"
    )


@lru_cache(maxsize=1024)  # the same second is formatted many times
def iso(epoch_seconds: int) -> str:
    """The date as ISO 8601 writes it: `2016-09-19T18:29:47Z`."""
    t = gmtime(epoch_seconds)
    return (
        f"{t.tm_year:04d}-{t.tm_mon:02d}-{t.tm_mday:02d}"
        f"T{t.tm_hour:02d}:{t.tm_min:02d}:{t.tm_sec:02d}Z"
    )


def parse_date(text: str) -> int:
    """Epoch seconds of a date in either format; raises `Refused` otherwise."""
    try:
        match = re.fullmatch(_RFC1123, text)
        if match:
            day, month, year, hour, minute, second = match.groups()
            when = datetime(
                int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second),
                tzinfo=timezone.utc,
            )  # fmt: skip
        else:
            when = datetime.fromisoformat(_to_iso(text))
            if when.tzinfo is None:
                when = when.replace(tzinfo=timezone.utc)
    except ValueError:
        raise Refused(
            "BadDate",
            f"{text[:60]!r} is not a date: write '2016-09-19T18:29:47Z' "
            "or 'Mon, 19 Sep 2016 18:29:47 GMT'",
        ) from None
    return int(when.timestamp())


def _to_iso(text: str) -> str:
    """Spell a date as Python 3.9 reads it: without `Z`, and with fractions of 6 digits."""
    text = re.sub(r"[.,]([0-9]{1,6})[0-9]*", lambda match: f".{match[1]:0<6}", text)
    return re.sub(r"[Zz]$", "+00:00", text)


def parse_duration(text: str) -> int:
    """Whole seconds of an ISO 8601 duration of days and smaller (`PT5M`, `P1DT12H`)."""
    match = re.fullmatch(_DURATION, text)
    parts = match.groupdict() if match else {}
    units = {unit: int(value) for unit, value in parts.items() if value is not None}
    if not units or text.endswith("T"):
        raise Refused(
            "BadDuration",
            f"{text[:60]!r} is not a duration: write ISO 8601, for example 'PT5M' or 'PT1H30M'",
        )
    days, hours = units.get("days", 0), units.get("hours", 0)
    return ((days * 24 + hours) * 60 + units.get("minutes", 0)) * 60 + units.get("seconds", 0)


def format_duration(seconds: int) -> str:
    """The ISO 8601 duration of whole seconds: `PT5M`, `PT1H30M`, `PT0S`."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M"), (rest, "S")) if n)
    return f"PT{text or '0S'}"


def spoken(seconds: float) -> str:
    """For people, in at most two units: `4.2 s`, `15 min`, `1 h 5 min`, `6 d 23 h`."""
    if seconds < _UNITS["min"]:
        return f"{max(seconds, 0):.1f}".removesuffix(".0") + " s"
    left, parts = int(seconds), []
    for unit, size in _UNITS.items():
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


_UNITS = {"d": 86400, "h": 3600, "min": 60, "s": 1}
