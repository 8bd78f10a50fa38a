"""Values of templates, their types, and template errors.

An error never shows the value of an expression, which may be a secret. It shows the text of the
template and the type of the value.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from fairwarning.core.errors import Refused
from fairwarning.core.record import short_record

DEPTH = 64  # levels; real templates have about 15, and Python's stack holds several times this
INT_BITS = 64  # Azure's integers
_QUOTED_CHARACTERS = 60  # of a string in an error

Value = Any
"""Any JSON value."""

S = TypeVar("S", list[Any], dict[str, Any])


# --- Errors -------------------------------------------------------------------------------------


class TemplateError(Refused):
    """The template is invalid at a place; `at` completes the place from the inside out."""

    def __init__(self, problem: str, where: str = "", *, complete: bool = False) -> None:
        super().__init__("InvalidTemplate", f"{where}: {problem}" if where else problem)
        self.problem = problem
        self.where = where
        self.complete = complete


@contextmanager
def at(place: str, *, complete: bool = False) -> Iterator[None]:
    """Add a place to the errors raised inside; a complete place gets no further prefix."""
    try:
        yield
    except TemplateError as error:
        if error.complete:
            raise
        dot = "." if error.where and not error.where.startswith("[") else ""
        raise TemplateError(
            error.problem, f"{place}{dot}{error.where}", complete=complete
        ) from None


def quote(value: object) -> str:
    """Return a string, quoted and truncated, an integer or a boolean; of others, the type."""
    if isinstance(value, str):
        return repr(
            value if len(value) <= _QUOTED_CHARACTERS else f"{value[:_QUOTED_CHARACTERS]}..."
        )
    kind = kind_of(value)
    return str(value).lower() if kind in {"int", "bool"} else kind


def too_deep() -> TemplateError:
    """The error for a value or an expression that is nested too deeply."""
    return TemplateError(f"this is nested more than {DEPTH} levels deep")


def boolean(value: object, key: str) -> bool:
    """Return the value; raise unless it is a boolean."""
    if not isinstance(value, bool):
        raise TemplateError(f"{key} must be true or false, not {kind_of(value)}")
    return value


# --- Values -------------------------------------------------------------------------------------


@short_record
class Lambda:
    """A function that is an argument of another: `lambda('x', add(lambdaVariables('x'), 1))`."""

    call: Callable[..., Any]


_KINDS = {
    bool: "bool",
    str: "string",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
    Lambda: "lambda",
}


def kind_of(value: object) -> str:
    """Return ARM's name of a value's type; `unknown` for an integer that is too large."""
    for kind, name in _KINDS.items():
        if isinstance(value, kind):
            return name
    return "int" if isinstance(value, int) and value.bit_length() < INT_BITS else "unknown"


def check_scalar(value: Value) -> Value:
    """Return the value; raise unless it is JSON and its integers are not too large."""
    if kind_of(value) in {"unknown", "lambda"}:
        raise TemplateError(f"a value must be JSON, and an integer must fit into {INT_BITS} bits")
    return value


def canonical(value: Value) -> str:
    """Return a string that is equal for equal values only: 1 is not true, and order is ignored."""
    return json.dumps(value, sort_keys=True)


def text_of(value: Value) -> str:
    """Return a value as the function string() formats it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return "" if value is None else str(value)


def section(raw: Mapping[str, Any], key: str, kind: type[S]) -> S:
    """Return the section with this name; an empty one if it is missing."""
    value = raw.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TemplateError(f"{key} must be {kind_of(kind())}, not {kind_of(value)}")
    return value
