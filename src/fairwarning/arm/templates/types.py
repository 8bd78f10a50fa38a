"""Types of parameters and outputs: the built-in ones, and those that a template defines."""

from collections.abc import Mapping
from typing import Any

from fairwarning.arm.templates.values import TemplateError, Value, at, canonical, kind_of, quote

TYPE_NAMES = {
    "string": "String", "securestring": "SecureString", "int": "Int", "bool": "Bool",
    "object": "Object", "secureobject": "SecureObject", "array": "Array",
}  # fmt: skip
"""The types of parameters and outputs, as Azure writes them in a deployment."""
LISTED = 10  # names in an error
_REFERENCES = 20  # from one definition to another
_DEFINITIONS = "#/definitions/"

Rules = Mapping[str, Any]
"""The declaration of a parameter, an output, or a part of one."""


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

    def __init__(self, definitions: Rules) -> None:
        self._definitions = definitions

    def resolve(self, rules: object, what: str = "a parameter") -> Rules:
        """Return the rules with those of the definition that they refer to."""
        if not isinstance(rules, dict):
            raise TemplateError(f"{what} needs a type, which is one of {', '.join(TYPE_NAMES)}")
        for _ in range(_REFERENCES):
            if "$ref" not in rules:
                break
            own = {key: value for key, value in rules.items() if key != "$ref"}
            rules = {**self._definition(rules["$ref"]), **own}
        if type_of(rules) not in TYPE_NAMES:
            raise TemplateError(f"{what} needs a type, which is one of {', '.join(TYPE_NAMES)}")
        return rules

    def _definition(self, reference: object) -> dict[str, Any]:
        name = reference.removeprefix(_DEFINITIONS) if isinstance(reference, str) else ""
        definition = self._definitions.get(name)
        if not isinstance(definition, dict):
            known = ", ".join(self._definitions)[:500] or "none"
            raise TemplateError(
                f"$ref must be {_DEFINITIONS} and the name of a definition, which are: {known}"
            )
        return definition


def check_value(rules: Rules, value: Value, definitions: Definitions) -> None:
    """Refuse a value that the declaration does not allow; `rules` are resolved."""
    if value is None and rules.get("nullable") is True:
        return
    kind = json_type(rules)
    if kind_of(value) != kind:
        declared, actual = rules["type"], kind_of(value)
        raise TemplateError(f"its type is {declared}, so it must be {kind}, not {actual}")
    _check_allowed(rules, value)
    _check_bounds(rules, value)
    if isinstance(value, list) and isinstance(rules.get("items"), dict):
        for number, item in enumerate(value):
            _check_part(f"[{number}]", rules["items"], item, definitions)
    if isinstance(value, dict):
        _check_properties(rules, value, definitions)


def _check_part(place: str, rules: object, value: Value, definitions: Definitions) -> None:
    with at(place):
        check_value(definitions.resolve(rules, "a part"), value, definitions)


def _check_properties(rules: Rules, value: dict[str, Value], definitions: Definitions) -> None:
    properties = rules.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    for name, declared in properties.items():
        _check_part(name[:60], declared, value.get(name), definitions)
    more = rules.get("additionalProperties")
    for name, part in value.items():
        if name not in properties and more is False:
            known = ", ".join(properties) or "none"
            raise TemplateError(f"it may have only these properties: {known[:500]}")
        if name not in properties and isinstance(more, dict):
            _check_part(name[:60], more, part, definitions)


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
