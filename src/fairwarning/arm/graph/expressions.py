"""Expressions of a query: columns, comparisons and functions."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

Row = dict[str, Any]
Value = Any  # of a column: any JSON


@dataclass(frozen=True)
class Expression:
    """A value that is computed from a row."""

    of: Callable[[Row], Value]
    name: str = ""  # of the column that it makes
    types: frozenset[str] | None = None
    """If it holds only for rows of these types, in lower case; None: of any type."""
    is_type: bool = False  # whether it is the column `type`


def literal(value: Value) -> Expression:
    """Return a constant."""
    return Expression(lambda _: value)


def column(path: Sequence[str | int]) -> Expression:
    """Return the value at a path, such as properties.osProfile; null if it is missing."""

    def of(row: Row) -> Value:
        value: Value = row
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    return Expression(of, "_".join(map(str, path)), is_type=list(path) == ["type"])


# --- Comparisons ----------------------------------------------------------------------------------


def text_of(value: Value) -> str:
    """Return a value as text, as tostring() does."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _same(left: Value, right: Value) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        return text_of(left) == text_of(right) if left is not None else False
    return bool(left == right)


def _folded(test: Callable[[str, str], bool]) -> Callable[[Value, Value], bool]:
    return lambda left, right: test(text_of(left).lower(), text_of(right).lower())


def _negated(test: Callable[[Value, Value], bool]) -> Callable[[Value, Value], bool]:
    return lambda left, right: not test(left, right)


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Value, Value], bool]:
    def ordered(left: Value, right: Value) -> bool:
        alike = all(isinstance(v, int | float) for v in (left, right)) or all(
            isinstance(v, str) for v in (left, right)
        )
        return alike and test(left, right)

    return ordered


def _number(value: Value) -> Value:
    try:
        return int(text_of(value))
    except ValueError:
        return None


def _has(left: str, right: str) -> bool:
    """Whether a text contains another as whole words."""
    return re.search(rf"(?<![0-9a-z]){re.escape(right)}(?![0-9a-z])", left) is not None


_POSITIVE: Mapping[str, Callable[[Value, Value], bool]] = {
    "contains": _folded(lambda left, right: right in left),
    "startswith": _folded(lambda left, right: left.startswith(right)),
    "endswith": _folded(lambda left, right: left.endswith(right)),
    "has": _folded(_has),
}
_EQUAL_FOLDED = _folded(lambda left, right: left == right)
COMPARISONS: Mapping[str, Callable[[Value, Value], bool]] = {
    "==": _same,
    "!=": _negated(_same),
    "=~": _EQUAL_FOLDED,
    "!~": _negated(_EQUAL_FOLDED),
    "<": _ordered(lambda left, right: bool(left < right)),
    ">": _ordered(lambda left, right: bool(left > right)),
    "<=": _ordered(lambda left, right: bool(left <= right)),
    ">=": _ordered(lambda left, right: bool(left >= right)),
    **_POSITIVE,
    **{f"!{name}": _negated(test) for name, test in _POSITIVE.items()},
}
MEMBERSHIPS = ("in", "in~", "!in", "!in~")
FUNCTIONS: Mapping[str, Callable[[Value], Value]] = {
    "tolower": lambda value: text_of(value).lower(),
    "toupper": lambda value: text_of(value).upper(),
    "tostring": text_of,
    "toint": _number,
    "isempty": lambda value: text_of(value) == "",
    "isnotempty": lambda value: text_of(value) != "",
    "isnull": lambda value: value is None,
    "isnotnull": lambda value: value is not None,
    "array_length": lambda value: len(value) if isinstance(value, list) else None,
    "not": lambda value: not value,
}


def compare(left: Expression, operator: str, right: Expression) -> Expression:
    """Return a comparison of two values."""
    test = COMPARISONS[operator]
    types = None
    if left.is_type and operator in {"==", "=~"} and not right.name:
        types = frozenset({text_of(right.of({})).lower()})
    return Expression(lambda row: test(left.of(row), right.of(row)), types=types)


def is_member(left: Expression, operator: str, members: Sequence[Value]) -> Expression:
    """Return whether a value is, or is not, one of several."""
    texts = {text_of(member) for member in members}
    folded = {text.lower() for text in texts}
    negated, in_any_case = operator.startswith("!"), operator.endswith("~")

    def of(row: Row) -> bool:
        text = text_of(left.of(row))
        inside = text.lower() in folded if in_any_case else text in texts
        return inside is not negated

    types = frozenset(folded) if left.is_type and not negated else None
    return Expression(of, types=types)


def both(left: Expression, right: Expression) -> Expression:
    """Return whether two conditions hold."""
    known = [types for types in (left.types, right.types) if types is not None]
    types = frozenset.intersection(*known) if known else None
    return Expression(lambda row: bool(left.of(row) and right.of(row)), types=types)


def either(left: Expression, right: Expression) -> Expression:
    """Return whether one of two conditions holds."""
    open_ended = left.types is None or right.types is None
    types = None if open_ended else (left.types or frozenset()) | (right.types or frozenset())
    return Expression(lambda row: bool(left.of(row) or right.of(row)), types=types)
