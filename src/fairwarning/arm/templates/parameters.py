"""Parameters and variables of a template: what they must be, and what they come to."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fairwarning.arm.templates.expressions import Evaluation, read
from fairwarning.arm.templates.functions import Functions
from fairwarning.arm.templates.values import TemplateError, Value, at, canonical, kind_of, shown

KINDS = {  # what a type of a parameter or output admits
    "string": "string",
    "securestring": "string",
    "int": "int",
    "bool": "bool",
    "object": "object",
    "secureobject": "object",
    "array": "array",
}
SECURE = {"securestring", "secureobject"}
LISTED = 10  # how many things a refusal names
LISTED_CHARACTERS = 500

S = TypeVar("S", list[Any], dict[str, Any])


class LazyValues:
    """Parameters or variables: each is made when it is first asked for, from others perhaps."""

    def __init__(self, section: str) -> None:
        self._section = section
        self._makers: dict[str, tuple[str, Callable[[], Value]]] = {}
        self._values: dict[str, Value] = {}
        self._busy: set[str] = set()

    def declare(self, name: str, make: Callable[[], Value]) -> None:
        """There is one of this name."""
        self._makers[name.lower()] = (name, make)

    def make_all(self) -> None:
        """Whether somebody asks for them or not: what is wrong with them is told."""
        for name in self._makers:
            self.value(name)

    def value(self, name: str) -> Value:
        """What it comes to."""
        key = name.lower()
        if key not in self._makers:
            known = ", ".join(name for name, _ in self._makers.values()) or "none"
            raise TemplateError(f"is not declared; declared are: {known[:LISTED_CHARACTERS]}")
        if key not in self._values:
            self._values[key] = self._made(key)
        return self._values[key]

    def _made(self, key: str) -> Value:
        name, make = self._makers[key]
        with at(f"{self._section}.{name[:60]}", whole=True):
            if key in self._busy:
                raise TemplateError("this is made of itself")
            self._busy.add(key)
            return make()


def section(raw: Mapping[str, Any], key: str, kind: type[S]) -> S:
    """The part of this name, which may be missing."""
    value = raw.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TemplateError(f"{key} must be {kind_of(kind())}, not {kind_of(value)}")
    return value


def parameter(rules: object, given: object, early: Evaluation, functions: Functions) -> Value:
    """What a parameter is: what was given, or what it is by default."""
    rules = early.copied(rules)
    if not isinstance(rules, dict) or type_of(rules) not in KINDS:
        raise TemplateError(f"a parameter needs a type, which is one of {', '.join(KINDS)}")
    if isinstance(given, dict) and "reference" in given:
        raise TemplateError("secrets from a key vault are not supported: send the value itself")
    if given is not None and not isinstance(given, dict):
        raise TemplateError('the value must be given as {"value": ...}')
    value = (given or {}).get("value")
    if value is None:
        value = _default(rules, early, functions)
    value = early.copied(value)
    must_be(rules["type"], value)
    _check_parameter(rules, value)
    return value


def _default(rules: Mapping[str, Any], early: Evaluation, functions: Functions) -> Value:
    if rules.get("defaultValue") is None:
        raise TemplateError("it has no default value, so a value must be given")
    try:
        return early.value(read(rules["defaultValue"], functions))
    except TemplateError:
        if type_of(rules) in SECURE:
            raise TemplateError(
                "its default value cannot be worked out (and is not shown)"
            ) from None
        raise


def type_of(rules: Mapping[str, Any]) -> str:
    """The type that is declared, in lower case; empty if there is none."""
    declared = rules.get("type")
    return declared.lower() if isinstance(declared, str) else ""


def must_be(declared: str, value: Value) -> None:
    """Refuse a value that is not of the declared type."""
    kind = KINDS[declared.lower()]
    if kind_of(value) != kind:
        raise TemplateError(f"its type is {declared}, so it must be {kind}, not {kind_of(value)}")


def _check_parameter(rules: Mapping[str, Any], value: Value) -> None:
    allowed = section(rules, "allowedValues", list)
    some = value if isinstance(value, list) else [value]
    if allowed and not set(map(canonical, some)) <= set(map(canonical, allowed)):
        listed = "" if type_of(rules) in SECURE else f": {', '.join(map(shown, allowed[:LISTED]))}"
        raise TemplateError(f"it must be one of its allowedValues{listed}")
    size = value if kind_of(value) == "int" else None
    length = len(value) if isinstance(value, str | list) else None
    for key, measure in (("Value", size), ("Length", length)):
        for end, sign in (("min", 1), ("max", -1)):
            bound = rules.get(end + key)
            if bound is None or measure is None:
                continue
            if kind_of(bound) != "int":
                raise TemplateError(f"{end}{key} must be int, not {kind_of(bound)}")
            if sign * measure < sign * bound:
                raise TemplateError(f"its {end}{key} is {bound}")
