"""What the expressions of a template can use: its parameters, variables and functions."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fairwarning.arm.templates.evaluation import (
    LIST_FUNCTIONS,
    Evaluation,
    FunctionCall,
    Functions,
    Node,
    TemplateFunction,
    ValueBudget,
)
from fairwarning.arm.templates.expressions import parse, parse_at
from fairwarning.arm.templates.functions import FUNCTIONS
from fairwarning.arm.templates.names import (
    DeploymentScope,
    ResourceNames,
    default_functions,
    scope_functions,
)
from fairwarning.arm.templates.values import (
    TYPE_NAMES,
    Definitions,
    TemplateError,
    Value,
    at,
    check_value,
    is_secure,
    json_type,
    kind_of,
    listed,
    section,
    type_of,
)

_NOT_IN_USER_FUNCTIONS = {"variables", "reference", "references", LIST_FUNCTIONS}  # as on Azure


class TemplateValues:
    """The values and functions of a template; nested templates with outer scope share them."""

    def __init__(
        self,
        raw: Mapping[str, Any],
        sent: Mapping[str, Any],
        scope: DeploymentScope,
        budget: ValueBudget,
    ) -> None:
        self._budget = budget
        self.definitions = Definitions(section(raw, "definitions", dict), budget.spend)
        self._declared = section(raw, "parameters", dict)
        self._parameters = LazyValues("parameters")
        self._variables = LazyValues("variables")
        self.functions: Functions = self._all_functions(raw, scope)
        self._declare_parameters(sent, {**self.functions, **default_functions(scope)})
        declared = section(raw, "variables", dict)
        with at("variables"):
            variables: dict[str, Node] = parse(declared, self.functions)
        early = Evaluation(self.functions, budget)
        for name, node in variables.items():
            self._variables.declare(name, partial(early.value, node))
        self._parameters.evaluate_all()
        self._variables.evaluate_all()

    def parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        for name, declared in self._declared.items():
            rules = self.definitions.resolve(declared)
            parameters[name] = {"type": TYPE_NAMES[type_of(rules)]}
            if not is_secure(rules):
                parameters[name]["value"] = self._parameters.value(name)
        return parameters

    def _all_functions(self, raw: Mapping[str, Any], scope: DeploymentScope) -> Functions:
        functions = {
            **FUNCTIONS,
            **scope_functions(scope),
            **ResourceNames(scope.group_id).functions(None),
            "parameters": TemplateFunction(self._parameters.value, ("string",)),
            "variables": TemplateFunction(self._variables.value, ("string",)),
        }
        _declare_user_functions(
            raw.get("functions") or [], functions, self.definitions, self._budget
        )
        return functions

    def _declare_parameters(self, sent: Mapping[str, Any], functions: Functions) -> None:
        early = Evaluation(functions, self._budget)
        values = {name.lower(): value for name, value in sent.items()}
        for name, rules in self._declared.items():
            value = values.pop(name.lower(), None)
            evaluate = partial(_parameter, rules, value, early, self.definitions)
            self._parameters.declare(name, evaluate)
        if values:
            unknown = listed(values)
            raise TemplateError(f"the template does not declare these parameters: {unknown}")


class LazyValues:
    """Parameters or variables. Each is evaluated on first use, and may refer to others."""

    def __init__(self, section: str) -> None:
        self._section = section
        self._factories: dict[str, tuple[str, Callable[[], Value]]] = {}
        self._values: dict[str, Value] = {}
        self._started: set[str] = set()

    def declare(self, name: str, evaluate: Callable[[], Value]) -> None:
        self._factories[name.lower()] = (name, evaluate)

    def evaluate_all(self) -> None:
        """Evaluate all values, used or not, so that the errors of each are reported."""
        for name in self._factories:
            self.value(name)

    def value(self, name: str) -> Value:
        key = name.lower()
        if key not in self._factories:
            known = listed(name for name, _ in self._factories.values())
            raise TemplateError(f"is not declared; declared are: {known}")
        if key not in self._values:
            name, evaluate = self._factories[key]
            with at(f"{self._section}.{name[:60]}", complete=True):
                if key in self._started:
                    raise TemplateError("this refers to itself")
                self._started.add(key)
                self._values[key] = evaluate()
        return self._values[key]


def _parameter(rules: object, sent: object, early: Evaluation, definitions: Definitions) -> Value:
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
    check_value(rules, value)
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


def _declare_user_functions(
    raw: object,
    functions: dict[str, TemplateFunction],
    definitions: Definitions,
    budget: ValueBudget,
) -> None:
    """Add the user functions of a template to its functions; each may call those before it."""
    if not isinstance(raw, list):
        raise TemplateError(f"functions must be array, not {kind_of(raw)}")
    for number, group in enumerate(raw):
        with at(f"functions[{number}]"):
            if not isinstance(group, dict) or not isinstance(group.get("namespace"), str):
                raise TemplateError("user functions need a namespace and members")
            for name, member in section(group, "members", dict).items():
                budget.spend(len(functions))  # each has a copy of those before it
                key = f"{group['namespace']}.{name}".lower()
                with at(f"members.{name[:60]}"):
                    functions[key] = _function(member, functions, definitions)


def _function(raw: object, functions: Functions, definitions: Definitions) -> TemplateFunction:
    if not isinstance(raw, dict) or not isinstance(raw.get("output"), dict):
        raise TemplateError("a user function needs an output with a type and a value")
    declared = section(raw, "parameters", list)
    parameters = dict(_declared_parameter(part, definitions) for part in declared)
    kind = _kind(raw["output"], definitions)
    own = {name: functions[name] for name in functions if name not in _NOT_IN_USER_FUNCTIONS}
    own["parameters"] = _own_parameters({})
    body = parse_at("output.value", raw["output"].get("value"), own)

    def invoke(evaluation: Evaluation, call: FunctionCall) -> Value:
        arguments = [evaluation.value(argument) for argument in call.arguments]
        evaluation.check(call, arguments)
        values = _own_parameters(dict(zip(parameters, arguments, strict=True)))
        result = evaluation.with_functions({**own, "parameters": values}).value(body)
        if kind_of(result) not in kind.split(" or "):
            raise TemplateError(f"{call} must return {kind}, not {kind_of(result)}")
        return evaluation.deep_copy(result)

    count = len(parameters)
    return TemplateFunction(
        invoke, (*parameters.values(), "any")[: count or 1], count, count, lazy=True
    )


def _own_parameters(values: Mapping[str, Value]) -> TemplateFunction:
    """Return the function parameters() inside a user function."""

    def parameter(name: str) -> Value:
        if name.lower() not in values:
            known = listed(values)
            raise TemplateError(f"is not a parameter of this user function; it has: {known}")
        return values[name.lower()]

    return TemplateFunction(parameter, ("string",))


def _kind(rules: object, definitions: Definitions) -> str:
    """Return the JSON type of a parameter or output, or several: `string or null`."""
    resolved = definitions.resolve(rules, "a user function")
    return json_type(resolved) + (" or null" if resolved.get("nullable") is True else "")


def _declared_parameter(raw: object, definitions: Definitions) -> tuple[str, str]:
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
        raise TemplateError("a parameter of a user function needs a name and a type")
    return raw["name"].lower(), _kind(raw, definitions)
