"""Functions of dates and times."""

import re
from datetime import UTC, datetime, timedelta

from fairwarning.arm.templates.calls import Functions, TemplateFunction
from fairwarning.arm.templates.functions.formats import format_time
from fairwarning.arm.templates.values import TemplateError

UTC_NOW_FORMAT = "yyyyMMddTHHmmss'Z'"
_DURATION = re.compile(
    r"(?P<sign>-?)P(?=.)(?:(?P<years>\d{1,4})Y)?(?:(?P<months>\d{1,5})M)?(?:(?P<weeks>\d{1,5})W)?"
    r"(?:(?P<days>\d{1,6})D)?(?:T(?=.)(?:(?P<hours>\d{1,7})H)?(?:(?P<minutes>\d{1,8})M)?"
    r"(?:(?P<seconds>\d{1,9})S)?)?",
    re.ASCII,
)
_DAYS = {"years": 365, "months": 30, "weeks": 7, "days": 1}
_SECONDS = {"hours": 3600, "minutes": 60, "seconds": 1}


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise TemplateError("takes a time such as 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise TemplateError("takes a time in the years 1 to 9999") from None


def _duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise TemplateError("takes a duration such as PT1H, P3D or -P1Y")
    days = sum(int(match[key] or 0) * factor for key, factor in _DAYS.items())
    seconds = sum(int(match[key] or 0) * factor for key, factor in _SECONDS.items())
    length = timedelta(days=days, seconds=seconds)
    return -length if match["sign"] else length


def _format_of(text: str) -> str:
    """Return the format of a time, in which a result is written by default."""
    basic = re.fullmatch(r"\d{8}T\d{6}Z", text.strip(), re.ASCII)
    if basic:
        return UTC_NOW_FORMAT
    return "u" if " " in text.strip() else "yyyy-MM-ddTHH:mm:ss'Z'"


def _add(base: str, duration: str, form: str = "") -> str:
    try:
        moment = _moment(base) + _duration(duration)
    except OverflowError:
        raise TemplateError("leads to a time that is not in the years 1 to 9999") from None
    return format_time(moment, form or _format_of(base))


def _from_epoch(seconds: int) -> str:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        raise TemplateError("takes seconds of a time in the years 1 to 9999") from None
    return format_time(moment, "yyyy-MM-ddTHH:mm:ss'Z'")


TIMES: Functions = {
    "datetimeadd": TemplateFunction(_add, ("string", "string", "string"), 2, 3),
    "datetimefromepoch": TemplateFunction(_from_epoch, ("int",)),
    "datetimetoepoch": TemplateFunction(lambda text: int(_moment(text).timestamp()), ("string",)),
}
