"""Parameter types: numbers in a range, texts that a function reads, durations."""

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from fairwarning.core.errors import Refused
from fairwarning.core.times import format_duration, parse_duration

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PARTS = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,6})?[dhms])+", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?", re.ASCII)

Value = TypeVar("Value")


class Integer(click.IntRange):
    """A whole number in a range."""

    name = "integer"


class Number(click.FloatRange):
    """A finite number in a range."""

    name = "number"

    def convert(
        self,
        value: Any,  # noqa: ANN401  (click's own)
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number; refuse `nan` and `inf`, which Python reads as numbers."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number such as 5 or 0.5", param, ctx)
        return number


class AnyCase(click.Choice[str]):
    """One of some words in any case; help and errors show them as they are spelled."""

    def __init__(self, *words: str) -> None:
        super().__init__(words, case_sensitive=False)

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        """Return the word as it is spelled; any other text as it is."""
        del ctx
        text = str(choice)
        return next((word for word in self.choices if word.lower() == text.lower()), text)


class Parsed(click.ParamType[Value]):
    """A text that a function converts; its `ValueError` says what is allowed."""

    def __init__(self, name: str, parse: Callable[[str], Value]) -> None:
        self.name = name
        self._parse = parse

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Value:
        """Return the value; one that is no text, such as a default, has been converted."""
        if not isinstance(value, str):
            return value  # type: ignore[return-value]
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


# --- Durations -----------------------------------------------------------------------------------


def _seconds(text: str) -> float:
    if _NUMBER.fullmatch(text):
        return float(text)
    if _PARTS.fullmatch(text):
        parts = re.findall("[^dhms]+.", text)
        return sum(float(part[:-1]) * _UNITS[part[-1]] for part in parts)
    try:
        return float(parse_duration(text.upper()))
    except Refused:
        allowed = "write 90, 90s, 15m, 2h, 1d, 1h30m or PT15M"
        raise ValueError(f"{text[:60]!r} is not a duration; {allowed}") from None


def _whole_seconds(text: str) -> int:
    seconds = _seconds(text)
    if seconds != int(seconds):
        raise ValueError(f"{text!r} is not a whole number of seconds")
    return int(seconds)


def _notice(text: str) -> str:
    """Return an ISO 8601 duration; the service checks its range (T1)."""
    return "" if text.lower() in {"none", ""} else format_duration(_whole_seconds(text))


DURATION = Parsed("duration", _seconds)
"""A duration in seconds, written as 90, 90s, 15m, 2h, 1d, 1h30m or PT15M."""

WHOLE_SECONDS = Parsed("duration", _whole_seconds)
"""A duration in whole seconds."""

NOTICE = Parsed("duration|none", _notice)
"""A termination notice in ISO 8601 (`PT5M`); empty for `none`."""
