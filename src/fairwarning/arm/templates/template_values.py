"""What the expressions of a template can use: its parameters, variables and functions."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fairwarning.arm.templates import user_functions
from fairwarning.arm.templates.calls import Functions, Node, TemplateFunction
from fairwarning.arm.templates.evaluation import Evaluation
from fairwarning.arm.templates.expressions import parse
from fairwarning.arm.templates.functions import FUNCTIONS
from fairwarning.arm.templates.names import ResourceNames
from fairwarning.arm.templates.scope import (
    DeploymentScope,
    Versions,
    default_functions,
    scope_functions,
)
from fairwarning.arm.templates.types import (
    TYPE_NAMES,
    Definitions,
    check_value,
    is_secure,
    type_of,
)
from fairwarning.arm.templates.values import TemplateError, Value, at, section

LISTED_CHARACTERS = 500  # of names in an error


class TemplateValues:
    """The values and functions of a template; nested templates with outer scope share them."""

    def __init__(
        self,
        raw: Mapping[str, Any],
        sent: Mapping[str, Any],
        scope: DeploymentScope,
        versions: Versions,
    ) -> None:
        self.definitions = Definitions(section(raw, "definitions", dict))
        self._declared = section(raw, "parameters", dict)
        self._parameters = LazyValues("parameters")
        self._variables = LazyValues("variables")
        self.functions: Functions = self._all_functions(raw, scope, versions)
        self._declare_parameters(sent, {**self.functions, **default_functions(scope)})
        self._declare_variables(section(raw, "variables", dict))
        self._parameters.evaluate_all()
        self._variables.evaluate_all()

    def parameters(self) -> dict[str, Any]:
        """Return the type and value of each parameter; secure parameters have no value."""
        parameters: dict[str, Any] = {}
        for name, declared in self._declared.items():
            rules = self.definitions.resolve(declared)
            parameters[name] = {"type": TYPE_NAMES[type_of(rules)]}
            if not is_secure(rules):
                parameters[name]["value"] = self._parameters.value(name)
        return parameters

    def _all_functions(
        self, raw: Mapping[str, Any], scope: DeploymentScope, versions: Versions
    ) -> Functions:
        functions = {
            **FUNCTIONS,
            **scope_functions(scope, versions),
            **ResourceNames(scope.group_id).functions(None),
            "parameters": TemplateFunction(self._parameters.value, ("string",)),
            "variables": TemplateFunction(self._variables.value, ("string",)),
        }
        user_functions.declare(raw.get("functions") or [], functions, self.definitions)
        return functions

    def _declare_parameters(self, sent: Mapping[str, Any], functions: Functions) -> None:
        early = Evaluation(functions)
        values = {name.lower(): value for name, value in sent.items()}
        for name, rules in self._declared.items():
            value = values.pop(name.lower(), None)
            evaluate = partial(_parameter, rules, value, early, self.definitions)
            self._parameters.declare(name, evaluate)
        if values:
            unknown = ", ".join(values)[:LISTED_CHARACTERS]
            raise TemplateError(f"the template does not declare these parameters: {unknown}")

    def _declare_variables(self, declared: dict[str, Any]) -> None:
        with at("variables"):
            variables: dict[str, Node] = parse(declared, self.functions)
        early = Evaluation(self.functions)
        for name, node in variables.items():
            self._variables.declare(name, partial(early.value, node))


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


def _parameter(
    rules: object,
    sent: object,
    early: Evaluation,
    definitions: Definitions,
) -> Value:
    """Return the value of a parameter: the one that the client sent, or the default."""
    rules = definitions.resolve(early.deep_copy(rules))
    if isinstance(sent, dict) and "reference" in sent:
        raise TemplateError("secrets from a key vault are not supported: send the value itself")
    if sent is not None and not isinstance(sent, dict):
        raise TemplateError('the value must be sent as {"value": ...}')
    value = (sent or {}).get("value")
    if value is None:
        value = _default(rules, early)
    value = early.deep_copy(value)
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
