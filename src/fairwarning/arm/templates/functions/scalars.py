"""Functions of numbers, booleans, times and address ranges."""

import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network

from fairwarning.arm.templates.evaluation import UNLIMITED, Functions, TemplateFunction
from fairwarning.arm.templates.values import TemplateError, Value, canonical, kind_of

_SCALAR = "string or int or bool"
_INTS = ("int", "int")
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
_POINT_TO_POINT = 2  # addresses in a range of two or one: all of them can be used


# --- Numbers, booleans and comparisons ------------------------------------------------------------


def _int(value: Value) -> int:
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,19}", value):
        raise TemplateError("takes a string only if it is an integer, such as '4'")
    return int(value)


def _bool(value: Value) -> bool:
    word = value.lower() if isinstance(value, str) else str(bool(value)).lower()
    if word not in {"true", "false"}:
        raise TemplateError("takes a string only if it is 'true' or 'false'")
    return word == "true"


def _divide(left: int, right: int) -> int:
    """Divide like Azure: towards zero."""
    if right == 0:
        raise TemplateError("may not divide by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _extreme(choose: Callable[[list[int]], int]) -> Callable[..., int]:
    """Return a function for the smallest or largest of its arguments, or of an array."""

    def extreme(*values: Value) -> int:
        numbers = values[0] if len(values) == 1 and isinstance(values[0], list) else list(values)
        if not numbers or not all(kind_of(number) == "int" for number in numbers):
            raise TemplateError("takes ints, or an array of ints that is not empty")
        return choose(numbers)

    return extreme


def _ordered(compare: Callable[[Value, Value], bool]) -> TemplateFunction:
    def ordered(left: Value, right: Value) -> bool:
        if kind_of(left) != kind_of(right):
            raise TemplateError("takes two ints or two strings")
        return compare(left, right)

    return TemplateFunction(ordered, ("int or string", "int or string"))


# --- Dates and times ------------------------------------------------------------------------------


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


# --- Address ranges -------------------------------------------------------------------------------


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise TemplateError("takes an address range such as 10.0.0.0/16") from None


def _parse_cidr(text: str) -> Value:
    network = _network(text)
    first, last = _usable(network)
    parts = {
        "network": network.network_address,
        "netmask": network.netmask,
        **({"broadcast": network.broadcast_address} if network.version == 4 else {}),  # noqa: PLR2004  (IPv4)
        "firstUsable": network[first],
        "lastUsable": network[last],
    }
    return {**{key: str(part) for key, part in parts.items()}, "cidr": network.prefixlen}


def _usable(network: IPv4Network | IPv6Network) -> tuple[int, int]:
    """Return the numbers of the first and the last address that a host may have."""
    if network.num_addresses <= _POINT_TO_POINT:
        return 0, network.num_addresses - 1
    return 1, network.num_addresses - 2


def _subnet(text: str, prefix: int, number: int) -> str:
    network = _network(text)
    if not network.prefixlen <= prefix <= network.max_prefixlen:
        raise TemplateError(
            f"takes a prefix length from {network.prefixlen} to {network.max_prefixlen}"
        )
    if not 0 <= number < 2 ** (prefix - network.prefixlen):
        raise TemplateError("takes the number of a subnet that is within the range")
    first = network.network_address + number * 2 ** (network.max_prefixlen - prefix)
    return f"{first}/{prefix}"


def _host(text: str, number: int) -> str:
    network = _network(text)
    first, last = _usable(network)
    if not 0 <= number <= last - first:
        raise TemplateError("takes the number of an address that is within the range")
    return str(network[first + number])


SCALARS: Functions = {
    "add": TemplateFunction(operator.add, _INTS),
    "bool": TemplateFunction(_bool, (_SCALAR,)),
    "cidrhost": TemplateFunction(_host, ("string", "int")),
    "cidrsubnet": TemplateFunction(_subnet, ("string", "int", "int")),
    "datetimeadd": TemplateFunction(_add, ("string", "string", "string"), 2, 3),
    "datetimetoepoch": TemplateFunction(lambda text: int(_moment(text).timestamp()), ("string",)),
    "div": TemplateFunction(_divide, _INTS),
    "equals": TemplateFunction(
        lambda left, right: canonical(left) == canonical(right), ("any", "any")
    ),
    "false": TemplateFunction(lambda: False),
    "greater": _ordered(operator.gt),
    "greaterorequals": _ordered(operator.ge),
    "int": TemplateFunction(_int, ("string or int",)),
    "less": _ordered(operator.lt),
    "lessorequals": _ordered(operator.le),
    "max": TemplateFunction(_extreme(max), ("int or array", "int"), 1, UNLIMITED),
    "min": TemplateFunction(_extreme(min), ("int or array", "int"), 1, UNLIMITED),
    "mod": TemplateFunction(lambda left, right: left - right * _divide(left, right), _INTS),
    "mul": TemplateFunction(operator.mul, _INTS),
    "not": TemplateFunction(lambda flag: not flag, ("bool",)),
    "parsecidr": TemplateFunction(_parse_cidr, ("string",)),
    "sub": TemplateFunction(operator.sub, _INTS),
    "true": TemplateFunction(lambda: True),
}
