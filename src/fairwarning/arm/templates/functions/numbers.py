"""Functions of numbers, booleans and comparisons."""

import operator
import re
from collections.abc import Callable

from fairwarning.arm.templates.evaluation import UNLIMITED, Functions, TemplateFunction
from fairwarning.arm.templates.values import TemplateError, Value, canonical, kind_of

_SCALAR = "string or int or bool"
_INTS = ("int", "int")


def _int(value: Value) -> int:
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,19}", value):
        raise TemplateError("takes a string only if it is an integer, such as '4'")
    return int(value)


def _bool(value: Value) -> bool:
    word = value.lower() if isinstance(value, str) else str(bool(value)).lower()
    if word not in {"true", "false"}:
        raise TemplateError("takes a string only if it is 'true' or 'false'")
    return word == "true"


def _divide(left: int, right: int) -> int:
    """Divide like Azure: towards zero."""
    if right == 0:
        raise TemplateError("may not divide by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _extreme(choose: Callable[[list[int]], int]) -> Callable[..., int]:
    """Return a function for the smallest or largest of its arguments, or of an array."""

    def extreme(*values: Value) -> int:
        numbers = values[0] if len(values) == 1 and isinstance(values[0], list) else list(values)
        if not numbers or not all(kind_of(number) == "int" for number in numbers):
            raise TemplateError("takes ints, or an array of ints that is not empty")
        return choose(numbers)

    return extreme


def _ordered(compare: Callable[[Value, Value], bool]) -> TemplateFunction:
    def ordered(left: Value, right: Value) -> bool:
        if kind_of(left) != kind_of(right):
            raise TemplateError("takes two ints or two strings")
        return compare(left, right)

    return TemplateFunction(ordered, ("int or string", "int or string"))


NUMBERS: Functions = {
    "add": TemplateFunction(operator.add, _INTS),
    "bool": TemplateFunction(_bool, (_SCALAR,)),
    "div": TemplateFunction(_divide, _INTS),
    "equals": TemplateFunction(
        lambda left, right: canonical(left) == canonical(right), ("any", "any")
    ),
    "false": TemplateFunction(lambda: False),
    "greater": _ordered(operator.gt),
    "greaterorequals": _ordered(operator.ge),
    "int": TemplateFunction(_int, ("string or int",)),
    "less": _ordered(operator.lt),
    "lessorequals": _ordered(operator.le),
    "max": TemplateFunction(_extreme(max), ("int or array", "int"), 1, UNLIMITED),
    "min": TemplateFunction(_extreme(min), ("int or array", "int"), 1, UNLIMITED),
    "mod": TemplateFunction(lambda left, right: left - right * _divide(left, right), _INTS),
    "mul": TemplateFunction(operator.mul, _INTS),
    "not": TemplateFunction(lambda flag: not flag, ("bool",)),
    "sub": TemplateFunction(operator.sub, _INTS),
    "true": TemplateFunction(lambda: True),
}
