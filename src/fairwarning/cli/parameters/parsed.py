"""A parameter type that a function reads."""

from collections.abc import Callable
from typing import TypeVar

import click

Value = TypeVar("Value")


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
