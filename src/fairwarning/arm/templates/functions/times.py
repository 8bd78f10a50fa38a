"""Functions of dates and times."""

import re
from datetime import UTC, datetime, timedelta

from fairwarning.arm.templates.evaluation import Functions, TemplateFunction
from fairwarning.arm.templates.values import TemplateError

UTC_NOW_FORMAT = "yyyyMMddTHHmmssZ"
_STANDARD = {
    "o": "yyyy-MM-ddTHH:mm:ss.0000000Z",
    "s": "yyyy-MM-ddTHH:mm:ss",
    "u": "yyyy-MM-dd HH:mm:ssZ",
}
_STRFTIME = {
    "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "dddd": "%A", "ddd": "%a",
    "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S",
}  # fmt: skip
_FORM = re.compile("|".join([*_STRFTIME, "'[^']*'", "."]))
_LITERAL = frozenset("TZ")
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
    return "u" if " " in text.strip() else "yyyy-MM-ddTHH:mm:ssZ"


def _add(base: str, duration: str, form: str = "") -> str:
    try:
        moment = _moment(base) + _duration(duration)
    except OverflowError:
        raise TemplateError("leads to a time that is not in the years 1 to 9999") from None
    return format_time(moment, form or _format_of(base))


def format_time(moment: datetime, form: str) -> str:
    """Return a time in a format of .NET, such as `yyyy-MM-dd` or `u`."""
    return "".join(_time_part(moment, part) for part in _FORM.findall(_STANDARD.get(form, form)))


def _time_part(moment: datetime, part: str) -> str:
    if part in _STRFTIME:
        return moment.strftime(_STRFTIME[part]) if part != "yyyy" else f"{moment.year:04}"
    if part.isalpha() and part not in _LITERAL:
        known = ", ".join([*_STANDARD, *_STRFTIME])
        raise TemplateError(f"takes formats of {known}, and other letters in single quotes")
    return part.strip("'")


TIMES: Functions = {
    "datetimeadd": TemplateFunction(_add, ("string", "string", "string"), 2, 3),
    "datetimetoepoch": TemplateFunction(lambda text: int(_moment(text).timestamp()), ("string",)),
}
