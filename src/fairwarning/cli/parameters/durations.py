"""Parameter types for durations."""

import re

import click

from fairwarning.core.errors import Refused
from fairwarning.core.times import format_duration, parse_duration

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PARTS = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,6})?[dhms])+", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?", re.ASCII)
_NONE = "none"


class Duration(click.ParamType[float]):
    """A duration in seconds, written as 90, 90s, 15m, 2h, 1d, 1h30m or PT15M."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value)
        if _NUMBER.fullmatch(text):
            return float(text)
        if _PARTS.fullmatch(text):
            parts = re.findall("[^dhms]+.", text)
            return sum(float(part[:-1]) * _UNITS[part[-1]] for part in parts)
        try:
            return float(parse_duration(text.upper()))
        except Refused:
            allowed = "write 90, 90s, 15m, 2h, 1d, 1h30m or PT15M"
            return self.fail(f"{text[:60]!r} is not a duration; {allowed}", param, ctx)


class WholeSeconds(Duration):
    """A duration in whole seconds."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return whole seconds."""
        seconds = super().convert(value, param, ctx)
        if seconds != int(seconds):
            self.fail(f"{value!r} is not a whole number of seconds", param, ctx)
        return int(seconds)


class Notice(click.ParamType[str]):
    """A termination notice in ISO 8601 (`PT5M`); empty for `none`."""

    name = "duration|none"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return an ISO 8601 duration; the service checks its range (T1)."""
        text = str(value)
        if text.lower() in {_NONE, ""}:
            return ""
        return format_duration(WholeSeconds().convert(text, param, ctx))
