"""Parameter types for numbers in a range, whose errors say "integer" and "number"."""

import math
from typing import Any

import click


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
