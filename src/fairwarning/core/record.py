"""Immutable values: frozen for the type checker, and cheap to create.

A `dataclass(frozen=True)` takes six times as long to create, and decisions mostly create values.
So `mypy --strict` enforces immutability instead.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

Check = Callable[[object], str | None]
"""Returns what is allowed if the value is not; None if it is."""

V = TypeVar("V")


def required(check: Check, **default: Any) -> Any:  # noqa: ANN401  (as `dataclasses.field` itself)
    """A field with a check for values from callers; see `commands.validate`."""
    return field(metadata={"check": check}, **default)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, required))
def record(kind: type[V]) -> type[V]:
    """Make a class a record with keyword fields; weak references to it are allowed."""
    return dataclass(slots=True, weakref_slot=True, kw_only=True)(kind)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def short_record(kind: type[V]) -> type[V]:
    """Make a class a record whose fields may be given by position."""
    return dataclass(slots=True)(kind)


_COPIERS: dict[type, Callable[[Any], Any]] = {}


def changed(value: V, **changes: object) -> V:
    """A copy with some fields changed."""
    copier = _COPIERS.get(type(value))
    if copier is None:
        copier = _COPIERS[type(value)] = _make_copier(type(value))
    copy: V = copier(value)
    for name, part in changes.items():
        setattr(copy, name, part)  # raises AttributeError for an unknown field
    return copy


def _make_copier(kind: Any) -> Callable[[Any], Any]:  # noqa: ANN401  (any record)
    """Generate a function that copies field by field; a loop takes six times as long."""
    lines = "".join(f"    copy.{field.name} = value.{field.name}\n" for field in fields(kind))
    scope: dict[str, Any] = {"kind": kind, "new": object.__new__}
    exec(f"def copier(value):\n    copy = new(kind)\n{lines}    return copy", scope)  # noqa: S102
    copier: Callable[[Any], Any] = scope["copier"]
    return copier
