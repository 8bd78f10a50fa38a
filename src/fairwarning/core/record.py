"""Values that do not change: frozen for the type checker, and cheap to make.

A `dataclass(frozen=True)` costs six times as much to build, and building values is what deciding
is made of. So the freezing is `mypy --strict`'s, which every change has to pass.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

Check = Callable[[object], str | None]
"""Says what is allowed when the value is not."""

V = TypeVar("V")


def required(check: Check, **default: Any) -> Any:  # noqa: ANN401  (as `dataclasses.field` itself)
    """A field whose values from outside are checked; see `commands.validate`."""
    return field(metadata={"check": check}, **default)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, required))
def record(kind: type[V]) -> type[V]:
    """Make a class a record; its fields are given by name, and it may be held weakly."""
    return dataclass(slots=True, weakref_slot=True, kw_only=True)(kind)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def short_record(kind: type[V]) -> type[V]:
    """Make a class a record whose few fields may be given by position."""
    return dataclass(slots=True)(kind)


_COPIERS: dict[type, Callable[[Any], Any]] = {}


def changed(value: V, **changes: object) -> V:
    """A copy with some fields changed."""
    copier = _COPIERS.get(type(value))
    if copier is None:
        copier = _COPIERS[type(value)] = _make_copier(type(value))
    copy: V = copier(value)
    for name, part in changes.items():
        setattr(copy, name, part)  # slots refuse a name that is not a field
    return copy


def _make_copier(kind: Any) -> Callable[[Any], Any]:  # noqa: ANN401  (any record)
    """Code that copies field by field, as `dataclasses` writes its own: a loop takes six times."""
    lines = "".join(f"    copy.{field.name} = value.{field.name}\n" for field in fields(kind))
    scope: dict[str, Any] = {"kind": kind, "new": object.__new__}
    exec(f"def copier(value):\n    copy = new(kind)\n{lines}    return copy", scope)  # noqa: S102
    copier: Callable[[Any], Any] = scope["copier"]
    return copier
