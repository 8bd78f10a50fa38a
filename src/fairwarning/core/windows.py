"""Maintenance windows: when the maintenance of a scope may begin, once or again and again.

A window is a line of text, as Azure's maintenance configurations have its parts:

    2026-11-20T02:00+01:00 PT4H 1Week Saturday,Sunday until 2027-06-01T00:00Z

Its time zone is the offset of its start. Daylight saving time is not followed.
"""

import re
from calendar import monthrange
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache

from fairwarning.core import times
from fairwarning.core.errors import Refused
from fairwarning.core.record import short_record

LONGEST_SECONDS = 24 * 3600
FORM = (
    "'<start> <duration> [<every>] [until <end>]', such as '2026-11-20T02:00Z PT4H' or "
    "'2026-11-20T02:00+01:00 PT4H 2Weeks Saturday,Sunday'; <every> is Day, 3Days, Week, "
    "2Weeks Monday,Friday, Month day1,day-1, Month Second Tuesday or Month Last Sunday Offset 3"
)
_DAY = timedelta(days=1)
_SEARCHED_DAYS = 4 * 366  # a window that does not open for so long does not open again
_SEARCHED_OPENINGS = 100  # windows that were never open together so often never are
_EVERY_MAX = 35
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ORDINALS: Mapping[str, int] = {"First": 1, "Second": 2, "Third": 3, "Fourth": 4, "Last": -1}
_TEXT = re.compile(
    r"(?P<start>\S+) (?P<duration>PT?\S+)"
    r"(?: (?P<count>[0-9]{1,2})?(?P<unit>Day|Week|Month)s?(?: (?P<days>(?!until ).+?))?)?"
    r"(?: until (?P<end>\S+))?",
    re.ASCII,
)
_MONTH_DAY = re.compile(r"day(-?[0-9]{1,2})", re.ASCII)
_ORDINAL = re.compile(r"(\w+) (\w+)(?: Offset (-?[0-9]))?", re.ASCII)


@short_record
class MaintenanceWindow:
    """A parsed window. Without a unit it opens once."""

    start: float
    seconds: int
    zone: timezone
    unit: str = ""
    every: int = 1
    weekdays: tuple[int, ...] = ()  # 0 is Monday
    month_days: tuple[int, ...] = ()  # 1 is the first, -1 the last
    ordinal: tuple[int, int, int] | None = None  # which, weekday, days after it
    end: float | None = None


def check(value: object) -> str | None:
    """What is allowed, if the value is not a window or empty."""
    allowed = f"empty, or a window: {FORM}"
    if not isinstance(value, str):
        return allowed
    try:
        if value:
            parse(value)
    except Refused:
        return allowed
    return None


@lru_cache(maxsize=256)  # a rollout asks for the same windows again and again
def parse(text: str) -> MaintenanceWindow:
    """Parse a window; raise `Refused` with the form of a window."""
    match = _TEXT.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        return _window(match)
    except (ValueError, Refused):
        raise Refused("BadWindow", f"a window must be {FORM}; not {text[:100]!r}") from None


def _window(match: re.Match[str]) -> MaintenanceWindow:
    start = datetime.fromisoformat(match["start"])
    zone = timezone(start.utcoffset() or timedelta())
    start = start.replace(tzinfo=zone)
    seconds, every = times.parse_duration(match["duration"]), int(match["count"] or 1)
    if not 0 < seconds <= LONGEST_SECONDS or not 1 <= every <= _EVERY_MAX:
        raise ValueError(seconds, every)
    unit, days = match["unit"] or "", match["days"] or ""
    weekdays: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    ordinal = None
    if unit == "Week":
        weekdays = tuple(map(_weekday, days.split(","))) if days else (start.weekday(),)
    elif unit == "Month":
        month_days = _month_days(days) if days else (start.day,)
        ordinal = None if month_days else _ordinal(days)
    elif days:
        raise ValueError(days)
    end = float(times.parse_date(match["end"])) if match["end"] else None
    return MaintenanceWindow(
        start.timestamp(), seconds, zone, unit, every, weekdays, month_days, ordinal, end
    )


def _weekday(name: str) -> int:
    return _WEEKDAYS.index(name.strip().capitalize())


def _month_days(text: str) -> tuple[int, ...]:
    """The days of `day1,day-1`; none if the text is something else."""
    matches = [_MONTH_DAY.fullmatch(part.strip()) for part in text.split(",")]
    days = tuple(int(match[1]) for match in matches if match)
    if len(days) < len(matches):
        return ()
    if not all(1 <= abs(day) <= 31 for day in days):  # noqa: PLR2004  (days of a month)
        raise ValueError(text)
    return days


def _ordinal(text: str) -> tuple[int, int, int]:
    match = _ORDINAL.fullmatch(text)
    if match is None or match[1].capitalize() not in _ORDINALS:
        raise ValueError(text)
    return _ORDINALS[match[1].capitalize()], _weekday(match[2]), int(match[3] or 0)


# --- When it is open ------------------------------------------------------------------------------


def opening(window: MaintenanceWindow, at: float) -> float | None:
    """The first time from `at` on at which the window is open; None if it never opens again."""
    began = begin(window, at)
    return None if began is None else max(began, at)


def begin(window: MaintenanceWindow, at: float) -> float | None:
    """When the window that is open at a time began, or else when the next one begins."""
    start = datetime.fromtimestamp(window.start, window.zone)
    first = datetime.fromtimestamp(max(at - window.seconds, window.start), window.zone).date()
    for number in range(_SEARCHED_DAYS if window.unit else 1):
        day = (first if window.unit else start.date()) + number * _DAY
        begins = datetime.combine(day, start.timetz()).timestamp()
        if window.end is not None and begins >= window.end:
            return None
        if begins >= window.start and begins + window.seconds > at and _recurs(window, start, day):
            return begins
    return None


def common_opening(texts: tuple[str, ...], at: float) -> float | None:
    """The first time from `at` on at which all these windows are open; None if there is none."""
    windows = [parse(text) for text in texts]
    for _ in range(_SEARCHED_OPENINGS):
        openings = [opening(window, at) for window in windows]
        latest = at
        for moment in openings:
            if moment is None:
                return None
            latest = max(latest, moment)
        if latest == at:
            return at
        at = latest
    return None


def _recurs(window: MaintenanceWindow, start: datetime, day: date) -> bool:
    """Whether the window opens on this day."""
    if window.unit == "Day":
        return (day - start.date()).days % window.every == 0
    if window.unit == "Week":
        weeks = (_monday(day) - _monday(start.date())).days // 7
        return weeks % window.every == 0 and day.weekday() in window.weekdays
    if window.unit == "Month":
        return _recurs_monthly(window, start, day)
    return True


def _recurs_monthly(window: MaintenanceWindow, start: datetime, day: date) -> bool:
    if window.ordinal is None:
        last = monthrange(day.year, day.month)[1]
        in_month = day.day in window.month_days or day.day - last - 1 in window.month_days
        return in_month and _is_month(window, start, day)
    which, weekday, offset = window.ordinal
    named = day - offset * _DAY  # in the month that counts
    last = monthrange(named.year, named.month)[1]
    number = (named.day - 1) // 7 + 1 if which > 0 else -((last - named.day) // 7 + 1)
    return number == which and named.weekday() == weekday and _is_month(window, start, named)


def _is_month(window: MaintenanceWindow, start: datetime, day: date) -> bool:
    return ((day.year - start.year) * 12 + day.month - start.month) % window.every == 0


def _monday(day: date) -> date:
    return day - day.weekday() * _DAY
