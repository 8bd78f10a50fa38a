"""Functions that take a lambda: `filter`, `map`, `reduce`, `sort` and others."""

from collections.abc import Callable
from functools import cmp_to_key

from fairwarning.arm.templates.calls import Functions, TemplateFunction
from fairwarning.arm.templates.values import Lambda, TemplateError, Value, kind_of


def _checked(value: Value, kind: str) -> Value:
    """Return the result of a lambda; raise unless it has this type."""
    if kind_of(value) != kind:
        raise TemplateError(f"takes a lambda that returns {kind}, not {kind_of(value)}")
    return value


def _filter(items: list[Value], keep: Lambda) -> list[Value]:
    return [item for number, item in enumerate(items) if _checked(keep.call(item, number), "bool")]


def _map(items: list[Value], convert: Lambda) -> list[Value]:
    return [convert.call(item, number) for number, item in enumerate(items)]


def _reduce(items: list[Value], start: Value, combine: Lambda) -> Value:
    result = start
    for number, item in enumerate(items):
        result = combine.call(result, item, number)
    return result


def _sort(items: list[Value], is_less: Lambda) -> list[Value]:
    """Sort stably by a lambda that says whether one element comes before another."""

    def compare(left: Value, right: Value) -> int:
        if _checked(is_less.call(left, right), "bool"):
            return -1
        return 1 if _checked(is_less.call(right, left), "bool") else 0

    return sorted(items, key=cmp_to_key(compare))


def _to_object(items: list[Value], key: Lambda, value: Lambda | None = None) -> dict[str, Value]:
    return {
        _checked(key.call(item), "string"): value.call(item) if value else item for item in items
    }


def _group_by(items: list[Value], key: Lambda) -> dict[str, list[Value]]:
    groups: dict[str, list[Value]] = {}
    for item in items:
        groups.setdefault(_checked(key.call(item), "string"), []).append(item)
    return groups


def _map_values(value: dict[str, Value], convert: Lambda) -> dict[str, Value]:
    return {key: convert.call(value[key]) for key in value}


def _of_array(call: Callable[..., Value]) -> TemplateFunction:
    return TemplateFunction(call, ("array", "lambda"))


LAMBDAS: Functions = {
    "filter": _of_array(_filter),
    "groupby": _of_array(_group_by),
    "map": _of_array(_map),
    "mapvalues": TemplateFunction(_map_values, ("object", "lambda")),
    "reduce": TemplateFunction(_reduce, ("array", "any", "lambda")),
    "sort": _of_array(_sort),
    "toobject": TemplateFunction(_to_object, ("array", "lambda", "lambda"), 2, 3),
}
