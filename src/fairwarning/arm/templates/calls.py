"""Calls of functions in templates: their parsed form, and the checks of their arguments."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fairwarning.arm.templates.values import TemplateError, Value, kind_of, quote
from fairwarning.core.record import changed, short_record

EXPRESSION_CHARACTERS = 24_576  # Azure's own limit
UNLIMITED = EXPRESSION_CHARACTERS  # more arguments do not fit into an expression

Node = Any
"""A parsed value: every expression in it is a FunctionCall, every repeated property a CopyLoop."""


@short_record
class FunctionCall:
    """A call of a function, and the path to a part of its result."""

    name: str
    arguments: tuple[Node, ...]
    path: tuple[Node, ...]

    def __str__(self) -> str:
        first = self.arguments[0] if self.arguments else None
        return f"{self.name}({quote(first) if isinstance(first, str) else ''})"


@short_record
class CopyLoop:
    """A value that is repeated into an array: `copy` in properties and variables."""

    name: str
    count: Node
    item: Node


@short_record
class TemplateFunction:
    """A function and the types of its arguments, of which the last may repeat.

    A lazy one evaluates its arguments by itself: it is called with the evaluation and the call.
    """

    call: Callable[..., Value]
    takes: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    lazy: bool = False

    def check_arity(self, call: FunctionCall) -> FunctionCall:
        """Return the call; raise if its number of arguments is wrong."""
        minimum = len(self.takes) if self.minimum is None else self.minimum
        maximum = len(self.takes) if self.maximum is None else self.maximum
        if minimum <= len(call.arguments) <= maximum:
            return call
        bounds = f"at least {minimum}" if maximum == UNLIMITED else f"{minimum} to {maximum}"
        number = minimum if minimum == maximum else bounds
        raise TemplateError(f"{call} takes {number} arguments, not {len(call.arguments)}")

    def check_types(self, arguments: list[Value]) -> None:
        """Refuse arguments of other types than the function takes."""
        for number, argument in enumerate(arguments):
            kinds = self.takes[min(number, len(self.takes) - 1)]
            if kinds != "any" and kind_of(argument) not in kinds.split(" or "):
                actual = kind_of(argument)
                raise TemplateError(f"takes {kinds} as its argument {number + 1}, not {actual}")


Functions = Mapping[str, TemplateFunction]
"""Functions by name, in lower case."""

LIST_FUNCTIONS = "list*"  # listKeys, listSecrets and others: what they are called is an argument


def find_function(functions: Functions, name: str) -> TemplateFunction | None:
    """Return the function with this name; None if there is none."""
    key = name.lower()
    if not key.startswith("list") or "." in key or LIST_FUNCTIONS not in functions:
        return functions.get(key)
    function = functions[LIST_FUNCTIONS]
    return changed(function, call=partial(function.call, name))
