"""Evaluates parsed values, within limits on depth and on the number of values created."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fairwarning.arm.templates.values import (
    DEPTH,
    TemplateError,
    Value,
    at,
    check_scalar,
    kind_of,
    quote,
    too_deep,
)
from fairwarning.arm.turns import pause
from fairwarning.core.record import changed, short_record

EXPRESSION_CHARACTERS = 24_576  # Azure's own limit
MAX_VALUES = 500_000  # that a deployment may parse and create: a few seconds' work
MAX_COPIES = 800  # repetitions of one loop: Azure's own limit
_CHARACTERS_OF_A_VALUE = 64  # a string of this length counts as another value
_PARSED_CHARACTERS = 8  # likewise, of a string that may be an expression

UNLIMITED = EXPRESSION_CHARACTERS  # more arguments do not fit into an expression

Node = Any
"""A parsed value: every expression in it is a FunctionCall, every repeated property a CopyLoop."""
Loops = Mapping[str, int]
"""The current number of each loop, by its name in lower case; "" is the loop of the resource."""


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
            actual = kind_of(argument)
            if actual == "lambda" if kinds == "any" else actual not in kinds.split(" or "):
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


class ValueBudget:
    """How many values a deployment may still create, with those of its nested templates."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def spend(self, values: int) -> None:
        """Count values; raise if there are too many."""
        pause()
        self._left -= values
        if self._left < 0:
            raise TemplateError(f"the expressions create more than {MAX_VALUES} values")

    def spend_on(self, value: object) -> None:
        """Count the parts of a value, which are going to be parsed."""
        waiting = [value]
        while waiting:
            part = waiting.pop()
            self.spend(1 + (len(part) // _PARSED_CHARACTERS if isinstance(part, str) else 0))
            if isinstance(part, dict | list):
                waiting += part.values() if isinstance(part, dict) else part


class Evaluation:
    """Evaluates parsed values with these functions, in these loops."""

    def __init__(
        self,
        functions: Functions,
        budget: ValueBudget,
        loops: Loops | None = None,
        depth: int = 0,
        lambda_variables: Mapping[str, Value] | None = None,
    ) -> None:
        self.loops = loops or {}
        self.lambda_variables = lambda_variables or {}
        self.functions = functions
        self.budget = budget
        self._depth = depth

    def value(self, node: Node) -> Value:
        """Return the value of a node; it may share parts with the results of functions."""
        self._depth += 1
        try:
            if self._depth > DEPTH:
                raise too_deep()
            self.budget.spend(1)
            if isinstance(node, FunctionCall):
                return self._call(node)
            if isinstance(node, list):
                return [self._part(f"[{number}]", item) for number, item in enumerate(node)]
            if isinstance(node, dict):
                return {key: self._part(str(key)[:60], node[key]) for key in node}
            return self._repeat(node) if isinstance(node, CopyLoop) else node
        finally:
            self._depth -= 1

    def deep_copy(self, value: Value, depth: int = 1) -> Value:
        """Return a deep copy of the value; raise if it exceeds the limits."""
        longer = len(value) // _CHARACTERS_OF_A_VALUE if isinstance(value, str) else 0
        self.budget.spend(1 + longer)
        if depth > DEPTH:
            raise too_deep()
        if isinstance(value, list | tuple):
            return [self.deep_copy(item, depth + 1) for item in value]
        if isinstance(value, Mapping):
            return {self.deep_copy(key): self.deep_copy(value[key], depth + 1) for key in value}
        return check_scalar(value)

    def in_loops(self, loops: Loops) -> "Evaluation":
        """Return an evaluation inside these loops, and otherwise like this one."""
        loops = {**self.loops, **loops}
        return Evaluation(self.functions, self.budget, loops, self._depth, self.lambda_variables)

    def with_functions(self, functions: Functions) -> "Evaluation":
        """Return an evaluation with other functions that shares the limits of this one."""
        return Evaluation(functions, self.budget, {}, self._depth)

    def with_variables(self, variables: Mapping[str, Value]) -> "Evaluation":
        """Return an evaluation with these variables of lambdas."""
        return Evaluation(self.functions, self.budget, self.loops, self._depth, variables)

    def check(self, call: FunctionCall, arguments: list[Value]) -> None:
        """Refuse arguments of the wrong types, of which there may be fewer than in the call."""
        _named(call, self._function(call).check_types, arguments)

    def _part(self, place: str, node: Node) -> Value:
        if isinstance(node, str):  # most of a long list
            self.budget.spend(1)
            return node
        with at(place):
            return self.value(node)

    def _repeat(self, loop: CopyLoop) -> list[Value]:
        count = check_count(self.value(loop.count))
        key = loop.name.lower()
        return [self.in_loops({key: number}).value(loop.item) for number in range(count)]

    def _function(self, call: FunctionCall) -> TemplateFunction:
        function = find_function(self.functions, call.name)
        assert function is not None  # the parser has found it
        return function

    def _call(self, call: FunctionCall) -> Value:
        function = self._function(call)
        if function.lazy:
            result = function.call(self, call)
        else:
            arguments = [self.value(argument) for argument in call.arguments]
            _named(call, function.check_types, arguments)
            result = self.deep_copy(_named(call, function.call, *arguments))
        for step in call.path:
            result = self._member(call, result, step)
        return result

    def _member(self, call: FunctionCall, value: Value, step: Node) -> Value:
        key = self.value(step)
        found, result = member(value, key)
        if found:
            return result
        part = kind_of(key) if isinstance(step, FunctionCall) else quote(step)
        raise TemplateError(
            f"{call} leads to a value of type {kind_of(value)}, which has no member {part}"
        )


def _named(call: FunctionCall, function: Callable[..., Value], *arguments: Value) -> Value:
    """Return the result; add the call to an error, but not to one that has its own place."""
    try:
        return function(*arguments)
    except TemplateError as error:
        if error.complete:
            raise
        raise TemplateError(f"{call} {error.problem}") from None


def member(value: Value, key: Value) -> tuple[bool, Value]:
    """Return whether a value has a member, and the member; names are case-insensitive."""
    if isinstance(value, dict) and isinstance(key, str):
        if key in value:
            return True, value[key]
        for name in value:
            if name.lower() == key.lower():
                return True, value[name]
    elif isinstance(value, list) and kind_of(key) == "int" and 0 <= key < len(value):
        return True, value[key]
    return False, None


def check_count(count: Value) -> int:
    """Return the count of a loop; raise unless it is a number in the allowed range."""
    if kind_of(count) != "int" or not 0 <= count <= MAX_COPIES:
        actual = count if kind_of(count) == "int" else kind_of(count)
        raise TemplateError(f"a count must be an int from 0 to {MAX_COPIES}, not {actual}")
    return int(count)
