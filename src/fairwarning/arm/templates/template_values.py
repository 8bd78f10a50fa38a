"""What the expressions of a template can use: its parameters, variables and functions."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from fairwarning.arm.templates import user_functions
from fairwarning.arm.templates.calls import Functions, Node, TemplateFunction
from fairwarning.arm.templates.evaluation import Evaluation
from fairwarning.arm.templates.expressions import parse
from fairwarning.arm.templates.functions import FUNCTIONS
from fairwarning.arm.templates.names import ResourceNames
from fairwarning.arm.templates.parameters import (
    LISTED_CHARACTERS,
    LazyValues,
    parameter,
    section,
)
from fairwarning.arm.templates.scope import (
    DeploymentScope,
    Versions,
    default_functions,
    scope_functions,
)
from fairwarning.arm.templates.types import TYPE_NAMES, Definitions, is_secure, type_of
from fairwarning.arm.templates.values import TemplateError, at


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
            evaluate = partial(parameter, rules, value, early, self.definitions)
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
