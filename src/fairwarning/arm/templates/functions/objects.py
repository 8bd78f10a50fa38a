"""Functions of objects and of JSON, and set operations on arrays and objects."""

import json

from fairwarning.arm.templates.calls import UNLIMITED, Functions, TemplateFunction
from fairwarning.arm.templates.evaluation import member
from fairwarning.arm.templates.functions.text import from_base64
from fairwarning.arm.templates.values import TemplateError, Value, canonical, kind_of

_SETS = "array or object"


def _json(text: str) -> Value:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise TemplateError("takes a string of valid JSON") from None


def _refuse_constant(word: str) -> Value:
    raise ValueError(word)  # NaN and Infinity, which are not JSON


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
        merged = _merge(merged, value)
    return merged


def _distinct(items: list[Value]) -> dict[str, Value]:
    """Return the items without repetitions, in the order of their first occurrence."""
    distinct: dict[str, Value] = {}
    for item in items:
        distinct.setdefault(canonical(item), item)
    return distinct


def _merge(base: dict[str, Value], more: dict[str, Value]) -> dict[str, Value]:
    result = dict(base)
    for key, value in more.items():
        before = result.get(key)
        both = isinstance(before, dict) and isinstance(value, dict)
        result[key] = _merge(before, value) if both else value  # type: ignore[arg-type]  # `both`
    return result


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
