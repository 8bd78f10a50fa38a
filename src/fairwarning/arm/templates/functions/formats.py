"""Format strings of .NET, as `format()` and the functions of times take them."""

import re
from datetime import datetime

from fairwarning.arm.templates.values import TemplateError, Value, kind_of, text_of

_SPECIFICATION = re.compile(r"(?:,(?P<width>-?[0-9]{1,3}))?(?::(?P<form>.+))?", re.DOTALL)
_INTEGER = re.compile(r"(?P<kind>[dDxX])(?P<digits>[0-9]{1,2})?|(?P<zeros>0+)", re.ASCII)
_TIME = re.compile(r"y{4}|y{2}|M{1,4}|d{1,4}|H{1,2}|h{1,2}|m{1,2}|s{1,2}|f{1,7}|tt|'[^']*'|\\.|.")
_STANDARD = {
    "d": "MM/dd/yyyy",
    "D": "dddd, dd MMMM yyyy",
    "o": "yyyy-MM-ddTHH:mm:ss.fffffff'Z'",
    "O": "yyyy-MM-ddTHH:mm:ss.fffffff'Z'",
    "r": "ddd, dd MMM yyyy HH:mm:ss 'GMT'",
    "R": "ddd, dd MMM yyyy HH:mm:ss 'GMT'",
    "s": "yyyy-MM-ddTHH:mm:ss",
    "t": "HH:mm",
    "T": "HH:mm:ss",
    "u": "yyyy-MM-dd HH:mm:ss'Z'",
}
_STRFTIME = {
    "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "dddd": "%A", "ddd": "%a",
    "dd": "%d", "HH": "%H", "hh": "%I", "mm": "%M", "ss": "%S", "tt": "%p",
}  # fmt: skip


def format_value(value: Value, specification: str) -> str:
    """Return a value as `{0,5}` or `{0:D3}` formats it; `,5` and `:D3` are specifications."""
    match = _SPECIFICATION.fullmatch(specification)
    if match is None:
        raise TemplateError("takes {0}, {1} and so on in its pattern; double a literal brace")
    text = text_of(value) if match["form"] is None else _integer(value, match["form"])
    width = int(match["width"] or 0)
    return text.rjust(width) if width >= 0 else text.ljust(-width)


def _integer(value: Value, form: str) -> str:
    match = _INTEGER.fullmatch(form)
    if match is None or kind_of(value) != "int":
        raise TemplateError(
            "takes {0}, {1} and so on in its pattern; of formats it takes {0:D3}, {0:X2} and "
            "{0:000} for an int"
        )
    digits = len(match["zeros"]) if match["zeros"] else int(match["digits"] or 1)
    written = format(abs(value), match["kind"] if (match["kind"] or "d") in "xX" else "d")
    return ("-" if value < 0 else "") + written.zfill(digits)


def format_time(moment: datetime, form: str) -> str:
    """Return a time in a format of .NET, such as `yyyy-MM-dd` or `u`."""
    return "".join(_time_part(moment, part) for part in _TIME.findall(_STANDARD.get(form, form)))


def _time_part(moment: datetime, part: str) -> str:
    if part in _STRFTIME:
        return moment.strftime(_STRFTIME[part]) if part != "yyyy" else f"{moment.year:04}"
    if part[0] == "f":
        return f"{moment.microsecond:06}0"[: len(part)]
    if part[0] in "'\\":
        return part.strip("'") if part[0] == "'" else part[1:]
    numbers = {
        "M": moment.month, "d": moment.day, "H": moment.hour, "h": moment.hour % 12 or 12,
        "m": moment.minute, "s": moment.second,
    }  # fmt: skip
    return str(numbers[part]) if part in numbers else part
