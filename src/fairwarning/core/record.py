"""Immutable values: frozen for the type checker, and cheap to import and to create.

A `dataclass(frozen=True)` takes six times as long to create, and decisions mostly create values.
So `mypy --strict` enforces immutability instead. The methods of a class are generated when it is
first used: generating them at the import would take a sixth of the time in which a service starts.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

Check = Callable[[object], str | None]
"""Returns what is allowed if the value is not; None if it is."""

V = TypeVar("V")


def checked(check: Check, **default: Any) -> Any:  # noqa: ANN401  (as `dataclasses.field` itself)
    """A field with a check for values from callers; see `commands.validate`."""
    return field(metadata={"check": check}, **default)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, checked))
def record(kind: type[V]) -> type[V]:
    """Make a class a record with keyword fields; weak references to it are allowed."""
    make = dataclass(init=False, repr=False, eq=False, kw_only=True, slots=True, weakref_slot=True)
    return _with_methods(make(kind))


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def short_record(kind: type[V]) -> type[V]:
    """Make a class a record whose fields may be given by position."""
    return _with_methods(dataclass(init=False, repr=False, eq=False, slots=True)(kind))


_COPIERS: dict[type, Callable[[Any], Any]] = {}


def changed(value: V, /, **changes: object) -> V:
    """A copy with some fields changed."""
    copier = _COPIERS.get(type(value))
    if copier is None:
        copier = _COPIERS[type(value)] = _make_copier(type(value))
    copy: V = copier(value)
    for name, part in changes.items():
        setattr(copy, name, part)  # raises AttributeError for an unknown field
    return copy


# --- Generated functions --------------------------------------------------------------------------


def _make_copier(kind: Any) -> Callable[[Any], Any]:  # noqa: ANN401  (any record)
    """Generate a function that copies field by field; a loop takes six times as long."""
    lines = "".join(f"    copy.{part.name} = value.{part.name}\n" for part in fields(kind))
    text = f"def copier(value):\n    copy = new(kind)\n{lines}    return copy"
    return _define("copier", text, kind=kind, new=object.__new__)


def _with_methods(kind: type[V]) -> type[V]:
    methods = {"__init__": _first_init, "__eq__": _first_eq, "__repr__": _describe}
    for name, method in methods.items():
        setattr(kind, name, method)
    kind.__hash__ = None  # type: ignore[assignment]  # as of a dataclass that can be compared
    return kind


def _first_init(value: Any, /, *args: object, **named: object) -> None:  # noqa: ANN401  (any record)
    """Generate the `__init__` of a class, and call it."""
    kind = type(value)
    body = "".join(f"    self.{part.name} = {_initial(part)}\n" for part in fields(kind))
    parameters = ", ".join(_parameter(part) for part in fields(kind))
    star = "*, " if any(part.kw_only for part in fields(kind)) else ""
    text = f"def __init__(self, {star}{parameters}):\n{body}    return"
    defaults = {f"default_{part.name}": _default(part) for part in fields(kind)}
    kind.__init__ = _define("__init__", text, MISSING=MISSING, **defaults)
    kind.__init__(value, *args, **named)


def _parameter(part: Field[Any]) -> str:
    if part.default_factory is not MISSING:
        return f"{part.name}=MISSING"
    return part.name if part.default is MISSING else f"{part.name}=default_{part.name}"


def _initial(part: Field[Any]) -> str:
    if part.default_factory is MISSING:
        return part.name
    return f"default_{part.name}() if {part.name} is MISSING else {part.name}"


def _default(part: Field[Any]) -> object:
    return part.default if part.default_factory is MISSING else part.default_factory


def _first_eq(value: Any, other: object) -> bool:  # noqa: ANN401  (any record)
    """Generate the `__eq__` of a class, and call it."""
    kind = type(value)
    names = [part.name for part in fields(kind) if part.compare]
    left, right = ("".join(f"{side}.{name}, " for name in names) for side in ("value", "other"))
    text = (
        "def __eq__(value, other):\n"
        "    if other.__class__ is not value.__class__:\n"
        "        return NotImplemented\n"
        f"    return ({left}) == ({right})"
    )
    kind.__eq__ = _define("__eq__", text)
    equal: bool = kind.__eq__(value, other)
    return equal


def _describe(value: Any) -> str:  # noqa: ANN401  (any record)
    shown = (part.name for part in fields(value) if part.repr)
    values = ", ".join(f"{name}={getattr(value, name)!r}" for name in shown)
    return f"{type(value).__qualname__}({values})"


def _define(name: str, text: str, **known: object) -> Callable[..., Any]:
    exec(text, known)  # noqa: S102  (the text comes from names of fields)
    function: Callable[..., Any] = known[name]  # type: ignore[assignment]
    return function
