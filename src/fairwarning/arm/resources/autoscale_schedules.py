"""When the profiles of an autoscale setting are active, as schedules of the rules.

A profile with a fixed date is active from its start to its end. A recurring one is active from each
of its times until the next time of any recurring profile, as on Azure: a profile that ends another
one is a recurring profile, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

from fairwarning.arm.http.errors import invalid_value
from fairwarning.arm.http.request import Body
from fairwarning.arm.resources import time_zones
from fairwarning.arm.resources.documents import typed_value
from fairwarning.core import times

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAY = 24 * 60  # minutes
_WEEK = 7 * _DAY
_MONDAY = datetime(2024, 1, 1, tzinfo=UTC)  # a week to begin with
_HOURS, _MINUTES = range(24), range(60)


@dataclass(frozen=True)
class _Start:
    """A time of the week, in UTC, at which a recurring profile begins."""

    minute: int
    profile: int


def schedules(profiles: list[Body]) -> list[tuple[str, ...]]:
    """Return the schedules of each profile; an empty string for one that is always active."""
    starts = sorted(
        (
            _Start(minute, number)
            for number, profile in enumerate(profiles)
            for minute in _recurring(profile, _path(number))
        ),
        key=lambda start: start.minute,
    )
    _check_different(starts)
    recurring = _weekly(starts)
    return [
        recurring.get(number) or _fixed(profile, _path(number))
        for number, profile in enumerate(profiles)
    ]


def _path(number: int) -> str:
    return f"properties.profiles[{number}]"


# --- Fixed dates ----------------------------------------------------------------------------------


def _fixed(profile: Body, where: str) -> tuple[str, ...]:
    date = typed_value(profile, "fixedDate", dict)
    if date is None:
        return ("",)
    where = f"{where}.fixedDate"
    zone = time_zones.parse(typed_value(date, "timeZone", str, "UTC"), f"{where}.timeZone")
    start, end = (_moment(date, name, where, zone) for name in ("start", "end"))
    if end <= start:
        raise invalid_value(f"{where}.end", date["end"], "a time after the start")
    whole_days, rest = divmod(int((end - start).total_seconds()), 24 * 3600)
    last = start + timedelta(days=whole_days)
    parts = []
    if whole_days:
        parts.append(f"{start.isoformat()} PT24H 1Day until {last.astimezone(UTC).isoformat()}")
    if rest:
        parts.append(f"{last.isoformat()} {times.format_duration(rest)}")
    return tuple(parts)


def _moment(date: Body, name: str, where: str, zone: tzinfo) -> datetime:
    text = typed_value(date, name, str, "")
    try:
        moment = datetime.fromisoformat(text).replace(microsecond=0)
    except ValueError as error:
        allowed = "a time such as 2026-11-20T02:00:00"
        raise invalid_value(f"{where}.{name}", text, allowed) from error
    if moment.utcoffset():
        return moment
    return moment.replace(tzinfo=zone)  # clients write local times as if they were UTC


# --- Recurrences ----------------------------------------------------------------------------------


def _recurring(profile: Body, where: str) -> Iterator[int]:
    """Return the minutes of the week, in UTC, at which a profile begins."""
    recurrence = typed_value(profile, "recurrence", dict)
    if recurrence is None:
        return
    where = f"{where}.recurrence"
    if typed_value(profile, "fixedDate", dict) is not None:
        raise invalid_value(where, "recurrence", "left out if there is a fixedDate")
    frequency = typed_value(recurrence, "frequency", str, "Week")
    if frequency.lower() != "week":
        raise invalid_value(f"{where}.frequency", frequency, "Week")
    schedule = typed_value(recurrence, "schedule", dict, {})
    where = f"{where}.schedule"
    zone = time_zones.parse(typed_value(schedule, "timeZone", str, "UTC"), f"{where}.timeZone")
    offset = int((zone.utcoffset(None) or timedelta()).total_seconds()) // 60
    for day in _days(schedule, where):
        for hour in _numbers(schedule, "hours", where, _HOURS):
            for minute in _numbers(schedule, "minutes", where, _MINUTES):
                yield (day * _DAY + hour * 60 + minute - offset) % _WEEK


def _days(schedule: Body, where: str) -> list[int]:
    days = typed_value(schedule, "days", list, [])
    names = {name.lower(): number for number, name in enumerate(_DAYS)}
    if not days or not all(isinstance(day, str) and day.lower() in names for day in days):
        raise invalid_value(f"{where}.days", days, "a list of days such as Monday")
    return [names[day.lower()] for day in days]


def _numbers(schedule: Body, name: str, where: str, allowed: range) -> list[int]:
    numbers: list[int] = typed_value(schedule, name, list, [])
    if not numbers or not all(type(n) is int and n in allowed for n in numbers):
        text = f"a list of whole numbers from 0 to {allowed[-1]}"
        raise invalid_value(f"{where}.{name}", numbers, text)
    return numbers


def _check_different(starts: list[_Start]) -> None:
    for first, second in pairwise(starts):
        if first.minute == second.minute:
            where = f"{_path(second.profile)}.recurrence.schedule"
            raise invalid_value(where, "its time", "a time at which no other profile begins")


def _weekly(starts: list[_Start]) -> Mapping[int, tuple[str, ...]]:
    """Return the schedules of recurring profiles: windows of at most a day, with their weekdays."""
    windows: dict[tuple[int, int, int], set[int]] = {}
    following = [*starts[1:], *starts[:1]]
    for start, after in zip(starts, following, strict=True):
        left, minute = (after.minute - start.minute) % _WEEK or _WEEK, start.minute
        while left:
            length = min(left, _DAY)
            day, time = divmod(minute % _WEEK, _DAY)
            windows.setdefault((start.profile, time, length), set()).add(day)
            minute, left = minute + length, left - length
    schedules: dict[int, tuple[str, ...]] = {}
    for (profile, time, length), days in windows.items():
        begins = (_MONDAY + timedelta(minutes=time)).isoformat()
        names = ",".join(_DAYS[day] for day in sorted(days))
        text = f"{begins} {times.format_duration(length * 60)} 1Week {names}"
        schedules[profile] = (*schedules.get(profile, ()), text)
    return schedules
