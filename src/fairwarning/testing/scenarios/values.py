"""What may stand in a scenario: one reader for each value. Places are told as in a fleet file."""

import re
from collections.abc import Iterable

from fairwarning.core import checks, limits, times
from fairwarning.core.document import VERSIONS
from fairwarning.core.errors import Refused
from fairwarning.core.record import Check
from fairwarning.service.config.values import FleetFileError, Read

LONGEST_SECONDS = 366 * 24 * 3600
"""No moment of a scenario is later."""

UNKNOWN = "unknown"
"""How a duration is written that is not known beforehand; -1 on the wire."""

_UNITS = {"d": 24 * 3600, "h": 3600, "m": 60, "s": 1}
_SHORT = re.compile("".join(rf"(?:([0-9]{{1,8}}){unit})?" for unit in _UNITS), re.ASCII)
_SHOWN_CHARACTERS = 60


def shown(value: object) -> str:
    """A value as a difference or a refusal shows it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        value = list(value)
    return repr(value)[:_SHOWN_CHARACTERS]


def spelled(seconds: float) -> str:
    """A time as scenarios write it: `1m30s`."""
    rest, parts = int(seconds), ""
    for unit, size in _UNITS.items():
        amount, rest = divmod(rest, size)
        parts += f"{amount}{unit}" if amount else ""
    return parts or "0s"


def moment(value: object) -> int:
    """Seconds of a time such as `1m30s`, `6d` or `PT15M`."""
    text = value if isinstance(value, str) else ""
    found = _SHORT.fullmatch(text)
    seconds = -1
    if text and found:
        amounts = (int(amount or 0) for amount in found.groups())
        seconds = sum(amount * size for amount, size in zip(amounts, _UNITS.values(), strict=True))
    elif text.startswith("P"):
        try:
            seconds = times.parse_duration(text)
        except Refused:
            seconds = -1
    if not 0 <= seconds <= LONGEST_SECONDS:
        what = "a time such as '30s', '1m30s', '2h', '6d' or 'PT15M', up to '366d'"
        raise FleetFileError(f"must be {what}, not {shown(value)}")
    return seconds


def moment_or(word: str) -> Read:
    """A time, or this word."""

    def take(value: object) -> int | str:
        return word if value == word else moment(value)

    return take


def checked(check: Check) -> Read:
    """What the core allows for it."""

    def take(value: object) -> object:
        if allowed := check(value):
            raise FleetFileError(f"must be {allowed}, not {shown(value)}")
        return value

    return take


def flag(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise FleetFileError(f"must be true or false, not {shown(value)}")
    return value


def one_of(words: Iterable[str]) -> Read:
    """One of these words."""
    known = [str(word) for word in words]

    def take(value: object) -> str:
        if isinstance(value, str) and value in known:
            return value
        raise FleetFileError(f"must be one of {', '.join(known)}, not {shown(value)}")

    return take


def list_of(read: Read, least: int = 0) -> Read:
    """An array of such values."""

    def take(value: object) -> tuple[object, ...]:
        if not isinstance(value, list) or len(value) < least:
            some = " that is not empty" if least else ""
            raise FleetFileError(f"must be an array{some}, not {shown(value)}")
        return tuple(map(read, value))

    return take


def one_or_more(value: object) -> tuple[str, ...]:
    """A name, or an array of names."""
    return _names(value) if isinstance(value, list) else (name(value),)


name = checked(checks.name)
text = checked(checks.text)
count = checked(checks.whole(0, limits.FOLLOWING_COMMANDS))
instances = list_of(count, least=1)
_names = list_of(name, least=1)
version = one_of(VERSIONS)
