"""Values of templates, their types, and template errors.

An error never shows the value of an expression, which may be a secret. It shows the text of the
template and the type of the value.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from fairwarning.core.errors import Refused
from fairwarning.core.record import short_record

DEPTH = 64  # levels; real templates have about 15, and Python's stack holds several times this
INT_BITS = 64  # Azure's integers
_QUOTED_CHARACTERS = 60  # of a string in an error
LISTED = 10  # names in an error
TYPE_NAMES = {
    "string": "String", "securestring": "SecureString", "int": "Int", "bool": "Bool",
    "object": "Object", "secureobject": "SecureObject", "array": "Array",
}  # fmt: skip
"""The types of parameters and outputs, as Azure writes them in a deployment."""
_REFERENCES = 20  # from one definition to another
_DEFINITIONS = "#/definitions/"

Rules = Mapping[str, Any]
"""The declaration of a parameter, an output, or a part of one."""

Value = Any
"""Any JSON value."""

S = TypeVar("S", list[Any], dict[str, Any])


class TemplateError(Refused):
    """The template is invalid at a place; `at` completes the place from the inside out."""

    def __init__(self, problem: str, where: str = "", *, complete: bool = False) -> None:
        super().__init__("InvalidTemplate", f"{where}: {problem}" if where else problem)
        self.problem = problem
        self.where = where
        self.complete = complete


class at:  # noqa: N801  (used like a function; a generator takes three times as long)
    """Add a place to the errors raised inside; a complete place gets no further prefix."""

    __slots__ = ("_complete", "_place")

    def __init__(self, place: str, *, complete: bool = False) -> None:
        self._place = place
        self._complete = complete

    def __enter__(self) -> None:
        """Begin the part of the template that is at the place."""

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if isinstance(error, TemplateError) and not error.complete:
            dot = "." if error.where and not error.where.startswith("[") else ""
            where = f"{self._place}{dot}{error.where}"
            raise TemplateError(error.problem, where, complete=self._complete) from None


def quote(value: object) -> str:
    """Return a string, quoted and truncated, an integer or a boolean; of others, the type."""
    if isinstance(value, str):
        return repr(
            value if len(value) <= _QUOTED_CHARACTERS else f"{value[:_QUOTED_CHARACTERS]}..."
        )
    kind = kind_of(value)
    return str(value).lower() if kind in {"int", "bool"} else kind


def listed(names: Iterable[str]) -> str:
    """Return the first of some names, for an error."""
    return ", ".join(name[:_QUOTED_CHARACTERS] for name in islice(names, LISTED)) or "none"


def too_deep() -> TemplateError:
    """The error for a value or an expression that is nested too deeply."""
    return TemplateError(f"this is nested more than {DEPTH} levels deep")


def boolean(value: object, key: str) -> bool:
    """Return the value; raise unless it is a boolean."""
    if not isinstance(value, bool):
        raise TemplateError(f"{key} must be true or false, not {kind_of(value)}")
    return value


@short_record
class Lambda:
    """A function that is an argument of another: `lambda('x', add(lambdaVariables('x'), 1))`."""

    call: Callable[..., Any]


_KINDS = {
    bool: "bool",
    str: "string",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
    Lambda: "lambda",
}


def kind_of(value: object) -> str:
    """Return ARM's name of a value's type; `unknown` for an integer that is too large."""
    for kind, name in _KINDS.items():
        if isinstance(value, kind):
            return name
    return "int" if isinstance(value, int) and value.bit_length() < INT_BITS else "unknown"


def check_scalar(value: Value) -> Value:
    """Return the value; raise unless it is JSON and its integers are not too large."""
    if kind_of(value) in {"unknown", "lambda"}:
        raise TemplateError(f"a value must be JSON, and an integer must fit into {INT_BITS} bits")
    return value


def canonical(value: Value) -> str:
    """Return a string that is equal for equal values only: 1 is not true, and order is ignored."""
    return json.dumps(value, sort_keys=True)


def text_of(value: Value) -> str:
    """Return a value as the function string() formats it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return "" if value is None else str(value)


def section(raw: Mapping[str, Any], key: str, kind: type[S]) -> S:
    """Return the section with this name; an empty one if it is missing."""
    value = raw.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TemplateError(f"{key} must be {kind_of(kind())}, not {kind_of(value)}")
    return value


def type_of(rules: Rules) -> str:
    """Return the declared type in lower case; "" without one."""
    declared = rules.get("type")
    return declared.lower() if isinstance(declared, str) else ""


def is_secure(rules: Rules) -> bool:
    """Return whether values of this type are secrets."""
    return type_of(rules).startswith("secure")


def json_type(rules: Rules) -> str:
    """Return the type of the values: that of a secure string is string."""
    return type_of(rules).removeprefix("secure")


class Definitions:
    """The types that a template defines, by name."""

    def __init__(self, definitions: Rules, spend: Callable[[int], None]) -> None:
        self._definitions = definitions
        self._spend = spend  # counts what is copied

    def resolve(self, rules: object, what: str = "a parameter") -> Rules:
        """Return the rules with those of the definition that they refer to."""
        if not isinstance(rules, dict):
            raise TemplateError(f"{what} needs a type, which is one of {', '.join(TYPE_NAMES)}")
        for _ in range(_REFERENCES):
            if "$ref" not in rules:
                break
            own = {key: value for key, value in rules.items() if key != "$ref"}
            rules = {**self._definition(rules["$ref"]), **own}
            self._spend(len(rules))
        if type_of(rules) not in TYPE_NAMES:
            raise TemplateError(f"{what} needs a type, which is one of {', '.join(TYPE_NAMES)}")
        return rules

    def _definition(self, reference: object) -> dict[str, Any]:
        name = reference.removeprefix(_DEFINITIONS) if isinstance(reference, str) else ""
        definition = self._definitions.get(name)
        if not isinstance(definition, dict):
            known = listed(self._definitions)
            raise TemplateError(f"$ref must be the name of a definition, which are: {known}")
        return definition


def check_value(rules: Rules, value: Value) -> None:
    """Refuse a value that the declaration does not allow; `rules` are resolved.

    The parts of arrays and objects are checked where they are used: by the resource's own schema.
    """
    if value is None and rules.get("nullable") is True:
        return
    kind = json_type(rules)
    if kind_of(value) != kind:
        declared, actual = rules["type"], kind_of(value)
        raise TemplateError(f"its type is {declared}, so it must be {kind}, not {actual}")
    _check_allowed(rules, value)
    _check_bounds(rules, value)


def _check_allowed(rules: Rules, value: Value) -> None:
    allowed = rules.get("allowedValues")
    if allowed is None:
        return
    if not isinstance(allowed, list):
        raise TemplateError(f"allowedValues must be array, not {kind_of(allowed)}")
    values = value if isinstance(value, list) else [value]
    if allowed and not set(map(canonical, values)) <= set(map(canonical, allowed)):
        listed = "" if is_secure(rules) else f": {', '.join(map(quote, allowed[:LISTED]))}"
        raise TemplateError(f"it must be one of its allowedValues{listed}")


def _check_bounds(rules: Rules, value: Value) -> None:
    size = value if kind_of(value) == "int" else None
    length = len(value) if isinstance(value, str | list) else None
    for key, actual in (("Value", size), ("Length", length)):
        for end, sign in (("min", 1), ("max", -1)):
            bound = rules.get(end + key)
            if bound is None or actual is None:
                continue
            if kind_of(bound) != "int":
                raise TemplateError(f"{end}{key} must be int, not {kind_of(bound)}")
            if sign * actual < sign * bound:
                raise TemplateError(f"its {end}{key} is {bound}")
