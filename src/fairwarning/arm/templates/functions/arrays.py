"""Functions of arrays, and of what arrays and strings or objects have in common."""

from collections.abc import Callable

from fairwarning.arm.templates.calls import UNLIMITED, Functions, TemplateFunction
from fairwarning.arm.templates.values import TemplateError, Value, canonical, kind_of

RANGE = 10_000  # numbers of a range: Azure's own limit
_LIST = "string or array"


def _end(index: int) -> Callable[[Value], Value]:
    """Return a function for the first or last element or character; null for an empty array."""

    def take(value: Value) -> Value:
        return value[index] if value else ("" if isinstance(value, str) else None)

    return take


def _contains(container: Value, item: Value) -> bool:
    if isinstance(container, list):
        return canonical(item) in map(canonical, container)
    if not isinstance(item, str):
        raise TemplateError(f"takes string as its argument 2, not {kind_of(item)}")
    if isinstance(container, str):
        return item in container
    return item.lower() in map(str.lower, container)


def _range(start: int, count: int) -> list[int]:
    if not 0 <= count <= RANGE:
        raise TemplateError(f"takes a count from 0 to {RANGE}")
    return list(range(start, start + count))


def _index_of(container: Value, item: Value) -> int:
    if isinstance(container, str):
        return _text_of(container).find(_text_of(item))
    items = [*map(canonical, container)]
    return items.index(canonical(item)) if canonical(item) in items else -1


def _last_index_of(container: Value, item: Value) -> int:
    if isinstance(container, str):
        return _text_of(container).rfind(_text_of(item))
    position = _index_of(container[::-1], item)
    return len(container) - 1 - position if position >= 0 else -1


def _text_of(value: Value) -> str:
    """Return a string in lower case, as positions in strings ignore case."""
    if not isinstance(value, str):
        raise TemplateError(f"takes string as its argument 2, not {kind_of(value)}")
    return value.lower()


def _flatten(items: list[Value]) -> list[Value]:
    if not all(isinstance(item, list) for item in items):
        raise TemplateError("takes an array of arrays")
    return [element for item in items for element in item]


def _from_end(items: list[Value], position: int) -> Value:
    if not 1 <= position <= len(items):
        raise TemplateError(f"takes a position from 1 to the length of the array, {len(items)}")
    return items[-position]


def _try_from_end(items: Value, position: int) -> Value:
    return items[-position] if items and 1 <= position <= len(items) else None


def _array(value: Value) -> list[Value]:
    return value if isinstance(value, list) else [value]


ARRAYS: Functions = {
    "array": TemplateFunction(_array, ("string or int or bool or array or object",)),
    "contains": TemplateFunction(_contains, (f"{_LIST} or object", "any")),
    "createarray": TemplateFunction(lambda *values: list(values), ("any",), 0, UNLIMITED),
    "empty": TemplateFunction(lambda value: not value, (f"{_LIST} or object or null",)),
    "first": TemplateFunction(_end(0), (_LIST,)),
    "flatten": TemplateFunction(_flatten, ("array",)),
    "indexfromend": TemplateFunction(_from_end, ("array", "int")),
    "indexof": TemplateFunction(_index_of, (_LIST, "any")),
    "last": TemplateFunction(_end(-1), (_LIST,)),
    "lastindexof": TemplateFunction(_last_index_of, (_LIST, "any")),
    "length": TemplateFunction(len, (f"{_LIST} or object",)),
    "range": TemplateFunction(_range, ("int", "int")),
    "skip": TemplateFunction(lambda value, count: value[max(count, 0) :], (_LIST, "int")),
    "take": TemplateFunction(lambda value, count: value[: max(count, 0)], (_LIST, "int")),
    "tryindexfromend": TemplateFunction(_try_from_end, ("array or null", "int")),
}
