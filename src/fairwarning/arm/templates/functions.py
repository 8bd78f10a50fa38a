"""Template functions that depend only on their arguments, and calls of functions.

`Template` adds the functions that depend on the deployment.
"""

import re
from base64 import b32encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from fairwarning.arm.templates.values import (
    TemplateError,
    Value,
    canonical,
    kind_of,
    quote,
    text_of,
)
from fairwarning.core.record import short_record

EXPRESSION_CHARACTERS = 24_576  # Azure's own limit
TEXT_CHARACTERS = 1_000_000  # what a call may write or search; Azure's limit is far lower
UNLIMITED = EXPRESSION_CHARACTERS  # more arguments do not fit into an expression

Node = Any
"""A parsed value: every expression in it is a FunctionCall."""


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
class TemplateFunction:
    """A function and the types of its arguments, of which the last may repeat."""

    call: Callable[..., Value]
    takes: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None

    def check_arity(self, call: FunctionCall) -> FunctionCall:
        """Return the call; raise if its number of arguments is wrong."""
        minimum = len(self.takes) if self.minimum is None else self.minimum
        maximum = len(self.takes) if self.maximum is None else self.maximum
        if minimum <= len(call.arguments) <= maximum:
            return call
        bounds = f"at least {minimum}" if maximum == UNLIMITED else f"{minimum} to {maximum}"
        number = minimum if minimum == maximum else bounds
        raise TemplateError(f"{call} takes {number} arguments, not {len(call.arguments)}")

    def invoke(self, arguments: list[Value]) -> Value:
        """Check the types of the arguments, and return the function's result."""
        for number, argument in enumerate(arguments):
            kinds = self.takes[min(number, len(self.takes) - 1)]
            if kinds != "any" and kind_of(argument) not in kinds.split(" or "):
                actual = kind_of(argument)
                raise TemplateError(f"takes {kinds} as its argument {number + 1}, not {actual}")
        return self.call(*arguments)


Functions = Mapping[str, TemplateFunction]
"""Functions by name, in lower case."""


# --- Functions ----------------------------------------------------------------------------------


def _concat(*parts: Value) -> Value:
    if all(isinstance(part, list) for part in parts):
        return [element for part in parts for element in part]
    if any(isinstance(part, list) for part in parts):
        raise TemplateError("takes either only arrays or no arrays")
    return "".join(map(text_of, parts))


def _format(pattern: str, *values: Value) -> str:
    """Return the pattern with values for {0}, {1}...; {{ and }} are literal braces."""
    pieces: list[str] = []
    written = 0
    for piece in re.findall(r"\{\{|\}\}|\{[0-9]{1,3}\}|[{}]|[^{}]+", pattern):
        if piece in {"{", "}"}:
            raise TemplateError("takes {0}, {1} and so on in its pattern; double a literal brace")
        pieces.append(_fill(piece, values))
        written += len(pieces[-1])
        if written > TEXT_CHARACTERS:
            raise TemplateError(f"may not write more than {TEXT_CHARACTERS} characters")
    return "".join(pieces)


def _fill(piece: str, values: tuple[Value, ...]) -> str:
    if piece[0] not in "{}":
        return piece
    if piece in {"{{", "}}"}:
        return piece[0]
    number = int(piece[1:-1])
    if number >= len(values):
        raise TemplateError(f"has no value for {piece}; the first value is {{0}}")
    return text_of(values[number])


def _int(value: Value) -> int:
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,19}", value):
        raise TemplateError("takes a string only if it is an integer, such as '4'")
    return int(value)


def _bool(value: Value) -> bool:
    word = value.lower() if isinstance(value, str) else str(bool(value)).lower()
    if word not in {"true", "false"}:
        raise TemplateError("takes a string only if it is 'true' or 'false'")
    return word == "true"


def _unique_string(*texts: str) -> str:
    digest = sha256("\0".join(texts).encode(errors="surrogatepass")).digest()
    return b32encode(digest).decode().lower()[:13]


def _split(text: str, delimiters: Value) -> list[str]:
    separators = [delimiters] if isinstance(delimiters, str) else delimiters
    if not all(isinstance(separator, str) for separator in separators):
        raise TemplateError("takes strings as delimiters")
    if len(text) * sum(map(len, separators)) > TEXT_CHARACTERS:  # each is tried at each position
        raise TemplateError("has too long a string or too many delimiters")
    pattern = "|".join(re.escape(separator) for separator in separators if separator)
    return re.split(pattern, text) if pattern else [text]


def _end(index: int) -> Callable[[Value], Value]:
    """Return a function for the first or last element or character; null for an empty array."""

    def take(value: Value) -> Value:
        return value[index] if value else ("" if isinstance(value, str) else None)

    return take


_SCALAR = "string or int or bool"

FUNCTIONS: Functions = {
    "and": TemplateFunction(lambda *flags: all(flags), ("bool",), 2, UNLIMITED),
    "bool": TemplateFunction(_bool, (_SCALAR,)),
    "concat": TemplateFunction(_concat, (f"{_SCALAR} or array",), 1, UNLIMITED),
    "createarray": TemplateFunction(lambda *values: list(values), ("any",), 0, UNLIMITED),
    "empty": TemplateFunction(lambda value: not value, ("string or array or object or null",)),
    "equals": TemplateFunction(
        lambda left, right: canonical(left) == canonical(right), ("any", "any")
    ),
    "false": TemplateFunction(lambda: False),
    "first": TemplateFunction(_end(0), ("string or array",)),
    "format": TemplateFunction(_format, ("string", "any"), 1, UNLIMITED),
    "if": TemplateFunction(lambda flag, yes, no: yes if flag else no, ("bool", "any", "any")),
    "int": TemplateFunction(_int, ("string or int",)),
    "last": TemplateFunction(_end(-1), ("string or array",)),
    "length": TemplateFunction(len, ("string or array or object",)),
    "not": TemplateFunction(lambda flag: not flag, ("bool",)),
    "null": TemplateFunction(lambda: None),
    "or": TemplateFunction(lambda *flags: any(flags), ("bool",), 2, UNLIMITED),
    "split": TemplateFunction(_split, ("string", "string or array")),
    "string": TemplateFunction(text_of, ("any",)),
    "tolower": TemplateFunction(str.lower, ("string",)),
    "toupper": TemplateFunction(str.upper, ("string",)),
    "true": TemplateFunction(lambda: True),
    "uniquestring": TemplateFunction(_unique_string, ("string",), 1, UNLIMITED),
}
