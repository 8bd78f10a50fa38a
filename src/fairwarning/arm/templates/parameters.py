"""Parameters and variables of a template: their declarations and their values."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fairwarning.arm.templates.evaluation import Evaluation
from fairwarning.arm.templates.expressions import parse
from fairwarning.arm.templates.types import Definitions, check_value, is_secure
from fairwarning.arm.templates.values import TemplateError, Value, at, kind_of

LISTED_CHARACTERS = 500

S = TypeVar("S", list[Any], dict[str, Any])


class LazyValues:
    """Parameters or variables. Each is evaluated on first use, and may refer to others."""

    def __init__(self, section: str) -> None:
        self._section = section
        self._factories: dict[str, tuple[str, Callable[[], Value]]] = {}
        self._values: dict[str, Value] = {}
        self._started: set[str] = set()

    def declare(self, name: str, evaluate: Callable[[], Value]) -> None:
        """Declare a value and how it is evaluated."""
        self._factories[name.lower()] = (name, evaluate)

    def evaluate_all(self) -> None:
        """Evaluate all values, used or not, so that the errors of each are reported."""
        for name in self._factories:
            self.value(name)

    def value(self, name: str) -> Value:
        """Return the value of a name."""
        key = name.lower()
        if key not in self._factories:
            known = ", ".join(name for name, _ in self._factories.values()) or "none"
            raise TemplateError(f"is not declared; declared are: {known[:LISTED_CHARACTERS]}")
        if key not in self._values:
            self._values[key] = self._evaluate(key)
        return self._values[key]

    def _evaluate(self, key: str) -> Value:
        name, evaluate = self._factories[key]
        with at(f"{self._section}.{name[:60]}", complete=True):
            if key in self._started:
                raise TemplateError("this refers to itself")
            self._started.add(key)
            return evaluate()


def section(raw: Mapping[str, Any], key: str, kind: type[S]) -> S:
    """Return the section with this name; an empty one if it is missing."""
    value = raw.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TemplateError(f"{key} must be {kind_of(kind())}, not {kind_of(value)}")
    return value


def parameter(
    rules: object,
    sent: object,
    early: Evaluation,
    definitions: Definitions,
) -> Value:
    """Return the value of a parameter: the one that the client sent, or the default."""
    rules = definitions.resolve(early.copy(rules))
    if isinstance(sent, dict) and "reference" in sent:
        raise TemplateError("secrets from a key vault are not supported: send the value itself")
    if sent is not None and not isinstance(sent, dict):
        raise TemplateError('the value must be sent as {"value": ...}')
    value = (sent or {}).get("value")
    if value is None:
        value = _default(rules, early)
    value = early.copy(value)
    check_value(rules, value, definitions)
    return value


def _default(rules: Mapping[str, Any], early: Evaluation) -> Value:
    if rules.get("defaultValue") is None:
        if rules.get("nullable") is True:
            return None
        raise TemplateError("it has no default value: send a value")
    try:
        return early.value(parse(rules["defaultValue"], early.functions))
    except TemplateError:
        if is_secure(rules):
            raise TemplateError(
                "its default value cannot be evaluated (and is not shown)"
            ) from None
        raise
