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


def must(check: Check, **default: Any) -> Any:  # noqa: ANN401  (as `dataclasses.field` itself)
    """A field whose values from outside are checked; see `commands.validate`."""
    return field(metadata={"check": check}, **default)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, must))
def record(kind: type[V]) -> type[V]:
    """Make a class a record; its fields are given by name."""
    return dataclass(slots=True, kw_only=True)(kind)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def short_record(kind: type[V]) -> type[V]:
    """Make a class a record whose few fields may be given by position."""
    return dataclass(slots=True)(kind)


_NAMES: dict[type, tuple[str, ...]] = {}


def changed(value: V, **changes: object) -> V:
    """A copy with some fields changed."""
    kind = type(value)
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(f.name for f in fields(kind))  # type: ignore[arg-type]
    copy = object.__new__(kind)
    for name in names:
        setattr(copy, name, getattr(value, name))
    for name, part in changes.items():
        setattr(copy, name, part)  # slots refuse a name that is not a field
    return copy
