"""Readers for the values of a scenario file."""

import re
from collections.abc import Iterable

from fairwarning.core import checks, configuration, limits, times
from fairwarning.core.configuration import (
    ConfigurationError,
    Read,
    checked,
    describe,
    list_of,
)
from fairwarning.core.document import VERSIONS
from fairwarning.core.errors import Refused

LONGEST_SECONDS = 366 * 24 * 3600
"""The latest time in a scenario."""

UNKNOWN = "unknown"
"""An unknown duration; -1 on the wire."""

_UNITS = {"d": 24 * 3600, "h": 3600, "m": 60, "s": 1}
_SHORT = re.compile("".join(rf"(?:([0-9]{{1,8}}){unit})?" for unit in _UNITS), re.ASCII)
_SHOWN_CHARACTERS = 60


def shown(value: object) -> str:
    """Format a value for a difference."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        value = list(value)
    return repr(value)[:_SHOWN_CHARACTERS]


def spelled(seconds: float) -> str:
    """Format a time like scenarios do: `1m30s`."""
    rest, parts = int(seconds), ""
    for unit, size in _UNITS.items():
        amount, rest = divmod(rest, size)
        parts += f"{amount}{unit}" if amount else ""
    return parts or "0s"


def moment(value: object) -> int:
    """Return the seconds of a time such as `1m30s`, `6d` or `PT15M`."""
    text = value if isinstance(value, str) else ""
    match = _SHORT.fullmatch(text)
    seconds = -1
    if text and match:
        amounts = (int(amount or 0) for amount in match.groups())
        seconds = sum(amount * size for amount, size in zip(amounts, _UNITS.values(), strict=True))
    elif text.startswith("P"):
        try:
            seconds = times.parse_duration(text)
        except Refused:
            seconds = -1
    if not 0 <= seconds <= LONGEST_SECONDS:
        allowed = "a time such as '30s', '1m30s', '2h', '6d' or 'PT15M', up to '366d'"
        raise ConfigurationError(f"must be {allowed}, not {describe(value)}")
    return seconds


def moment_or(word: str) -> Read:
    """Return a reader for a time or this word."""

    def read(value: object) -> int | str:
        return word if value == word else moment(value)

    return read


def one_of(words: Iterable[str]) -> Read:
    """Return a reader for one of these words, as plain text even if they are members."""
    return configuration.one_of([str(word) for word in words])


def one_or_more(value: object) -> tuple[str, ...]:
    """Read a name, or an array of names."""
    return _names(value) if isinstance(value, list) else (name(value),)


name = checked(checks.name)
text = checked(checks.text)
count = checked(checks.whole(0, limits.FOLLOWING_COMMANDS))
instances = list_of(count, least=1)
_names = list_of(name, least=1)
version = one_of(VERSIONS)
