"""Maintenance windows: on which days of the week, when and for how long rollouts may begin.

A window is a line of text: days, the time at which it opens with its offset from UTC, and a length:

    Saturday,Sunday 02:00+01:00 PT4H

It is the same in every week, so no date can be out of range. Daylight saving time is not followed.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from fairwarning.core import times
from fairwarning.core.errors import Refused

FORM = (
    "'<days> <time> <length>', such as 'Saturday,Sunday 02:00+01:00 PT4H' or 'Daily 22:00Z PT90M'; "
    "the length is PT1M to P1D"
)
Interval = tuple[int, int]
"""From and until: seconds since the beginning of a week, which is Monday 00:00 UTC."""

_DAY, _HOUR, _MINUTE = 24 * 3600, 3600, 60
_WEEK = 7 * _DAY
_FIRST_MONDAY = 4 * _DAY  # 5 January 1970, in seconds since the epoch
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TEXT = (
    r"(?P<days>[A-Za-z,]+) (?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9])"
    r"(?:Z|(?P<sign>[+-])(?P<hours>0[0-9]|1[0-4]):(?P<minutes>[0-5][0-9])) (?P<length>P\w+)"
)


def check(value: object) -> str | None:
    """What is allowed, if the value is not a window or empty."""
    try:
        if isinstance(value, str):
            _ = value and intervals(value)
            return None
    except Refused:
        pass
    return f"empty, or a window: {FORM}"


@lru_cache(maxsize=256)  # a rollout asks for the same windows again and again
def intervals(text: str) -> tuple[Interval, ...]:
    """When a window is open in each week; raise `Refused` with the form of a window."""
    match = re.fullmatch(_TEXT, text)
    if match is None or not _MINUTE <= (length := times.parse_duration(match["length"])) <= _DAY:
        raise _bad_window(text)
    offset = int(match["hours"] or 0) * _HOUR + int(match["minutes"] or 0) * _MINUTE
    opens = int(match["hour"]) * _HOUR + int(match["minute"]) * _MINUTE
    opens -= -offset if match["sign"] == "-" else offset
    begins = ((day * _DAY + opens) % _WEEK for day in _days(match["days"], text))
    return _merged(part for begin in begins for part in _within_week(begin, begin + length))


def _bad_window(text: str) -> Refused:
    return Refused("BadWindow", f"a window must be {FORM}; not {text[:100]!r}")


def _days(text: str, window: str) -> list[int]:
    names = text.lower().split(",")
    if names == ["daily"]:
        return list(range(len(_DAYS)))
    if not set(names) <= set(_DAYS):
        raise _bad_window(window)
    return [_DAYS.index(name) for name in names]


def _within_week(begin: int, end: int) -> tuple[Interval, ...]:
    """An interval that ends in the next week continues at the beginning of this one."""
    return ((begin, end),) if end <= _WEEK else ((begin, _WEEK), (0, end - _WEEK))


def _merged(parts: Iterable[Interval]) -> tuple[Interval, ...]:
    """The intervals in order; those that touch are one."""
    merged: list[Interval] = []
    for begin, end in sorted(parts):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return tuple(merged)


def common_opening(windows: Iterable[str], at: float) -> float | None:
    """The first time from `at` on at which all these windows are open; None if there is none."""
    common = _common(windows)
    if not common:
        return None
    passed = (at - _FIRST_MONDAY) % _WEEK
    for begin, end in common:
        if passed < end:
            return at + max(0.0, begin - passed)
    return at - passed + _WEEK + common[0][0]


def opened_at(windows: Iterable[str], at: float) -> float:
    """When all these windows were opened that are open at this time; at most a week before."""
    common = _common(windows)
    passed = (at - _FIRST_MONDAY) % _WEEK
    begin = next(begin for begin, end in common if begin <= passed < end)
    if begin == 0 and common[-1][1] == _WEEK:  # since the week before
        begin = common[-1][0] - _WEEK
    return at - passed + begin


def _common(windows: Iterable[str]) -> tuple[Interval, ...]:
    common: tuple[Interval, ...] = ((0, _WEEK),)
    for text in dict.fromkeys(windows):
        common = _intersection(common, intervals(text))
    return common


def _intersection(
    first: tuple[Interval, ...], second: tuple[Interval, ...]
) -> tuple[Interval, ...]:
    return tuple(
        (max(a, c), min(b, d)) for a, b in first for c, d in second if max(a, c) < min(b, d)
    )
