"""Functions of arrays, objects and JSON; some take a lambda, as `filter` and `map`."""

from collections.abc import Callable
from functools import cmp_to_key

import msgspec

from fairwarning.arm.templates.evaluation import UNLIMITED, Functions, TemplateFunction, member
from fairwarning.arm.templates.functions.text import from_base64
from fairwarning.arm.templates.values import Lambda, TemplateError, Value, canonical, kind_of

RANGE = 10_000  # numbers of a range: Azure's own limit
_LIST = "string or array"
_SETS = "array or object"


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


ARRAYS: Functions = {
    "array": TemplateFunction(
        lambda value: value if isinstance(value, list) else [value],
        ("string or int or bool or array or object",),
    ),
    "contains": TemplateFunction(_contains, (f"{_LIST} or object", "any")),
    "createarray": TemplateFunction(lambda *values: list(values), ("any",), 0, UNLIMITED),
    "empty": TemplateFunction(lambda value: not value, (f"{_LIST} or object or null",)),
    "first": TemplateFunction(_end(0), (_LIST,)),
    "flatten": TemplateFunction(_flatten, ("array",)),
    "indexof": TemplateFunction(_index_of, (_LIST, "any")),
    "last": TemplateFunction(_end(-1), (_LIST,)),
    "lastindexof": TemplateFunction(_last_index_of, (_LIST, "any")),
    "length": TemplateFunction(len, (f"{_LIST} or object",)),
    "range": TemplateFunction(_range, ("int", "int")),
    "skip": TemplateFunction(lambda value, count: value[max(count, 0) :], (_LIST, "int")),
    "take": TemplateFunction(lambda value, count: value[: max(count, 0)], (_LIST, "int")),
}


def _json(text: str) -> Value:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise TemplateError("takes a string of valid JSON") from None


def _create_object(*parts: Value) -> dict[str, Value]:
    keys = parts[::2]
    if len(parts) % 2 or not all(isinstance(key, str) for key in keys):
        raise TemplateError("takes names, each followed by its value")
    return dict(zip(keys, parts[1::2], strict=True))


def _check_same(values: tuple[Value, ...]) -> None:
    if len({kind_of(value) for value in values}) > 1:
        raise TemplateError("takes either only arrays or only objects")


def _union(*values: Value) -> Value:
    _check_same(values)
    if isinstance(values[0], list):
        return [*_distinct([item for value in values for item in value]).values()]
    merged: dict[str, Value] = {}
    for value in values:
        _merge(merged, value)
    return merged


def _distinct(items: list[Value]) -> dict[str, Value]:
    """Return the items without repetitions, in the order of their first occurrence."""
    distinct: dict[str, Value] = {}
    for item in items:
        distinct.setdefault(canonical(item), item)
    return distinct


def _merge(base: dict[str, Value], more: dict[str, Value]) -> None:
    """Merge an object into another, of which no part belongs to a third."""
    for key, value in more.items():
        if isinstance(value, dict):
            before = base.get(key)
            base[key] = before if isinstance(before, dict) else {}
            _merge(base[key], value)
        else:
            base[key] = value


def _intersection(*values: Value) -> Value:
    _check_same(values)
    first, *others = values
    if isinstance(first, list):
        common = [{canonical(item) for item in value} for value in others]
        distinct = _distinct(first).items()
        return [item for key, item in distinct if all(key in keys for keys in common)]
    return {
        key: value
        for key, value in first.items()
        if all(key in other and canonical(other[key]) == canonical(value) for other in others)
    }


def _items(value: dict[str, Value]) -> list[Value]:
    return [{"key": key, "value": value[key]} for key in sorted(value, key=str.lower)]


def _shallow_merge(values: list[Value]) -> dict[str, Value]:
    if not all(isinstance(value, dict) for value in values):
        raise TemplateError("takes an array of objects")
    return {key: value[key] for value in values for key in value}


def _try_get(value: Value, *keys: Value) -> Value:
    for key in keys:
        _, value = member(value, key)
    return value


OBJECTS: Functions = {
    "base64tojson": TemplateFunction(lambda text: _json(from_base64(text)), ("string",)),
    "createobject": TemplateFunction(_create_object, ("any",), 0, UNLIMITED),
    "intersection": TemplateFunction(_intersection, (_SETS,), 2, UNLIMITED),
    "items": TemplateFunction(_items, ("object",)),
    "json": TemplateFunction(_json, ("string",)),
    "null": TemplateFunction(lambda: None),
    "objectkeys": TemplateFunction(lambda value: sorted(value, key=str.lower), ("object",)),
    "shallowmerge": TemplateFunction(_shallow_merge, ("array",)),
    "tryget": TemplateFunction(_try_get, ("any", "string or int"), 2, UNLIMITED),
    "union": TemplateFunction(_union, (_SETS,), 2, UNLIMITED),
}


def _checked(value: Value, kind: str) -> Value:
    """Return the result of a lambda; raise unless it has this type."""
    if kind_of(value) != kind:
        raise TemplateError(f"takes a lambda that returns {kind}, not {kind_of(value)}")
    return value


def _filter(items: list[Value], keep: Lambda) -> list[Value]:
    return [item for number, item in enumerate(items) if _checked(keep.call(item, number), "bool")]


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


def _of_array(call: Callable[..., Value]) -> TemplateFunction:
    return TemplateFunction(call, ("array", "lambda"))


LAMBDAS: Functions = {
    "filter": _of_array(_filter),
    "map": _of_array(
        lambda items, convert: [convert.call(item, number) for number, item in enumerate(items)]
    ),
    "reduce": TemplateFunction(_reduce, ("array", "any", "lambda")),
    "sort": _of_array(_sort),
    "toobject": TemplateFunction(_to_object, ("array", "lambda", "lambda"), 2, 3),
}
