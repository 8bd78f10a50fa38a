"""A deployment template: its resources, their order, their bodies, and its outputs.

This package only evaluates. The caller deploys the resources in order, and reads the existing
resources that expressions refer to.
"""

from collections.abc import Mapping
from typing import Any

from fairwarning.arm.templates.declarations import check_not_linked
from fairwarning.arm.templates.evaluation import (
    CopyLoop,
    Evaluation,
    Functions,
    Loops,
    Node,
    ValueBudget,
)
from fairwarning.arm.templates.expressions import parse_at
from fairwarning.arm.templates.names import KnownResources, ReferenceNeeded, ResourceNames
from fairwarning.arm.templates.scope import DeploymentScope
from fairwarning.arm.templates.step_builder import RESOURCES, StepBuilder
from fairwarning.arm.templates.steps import StepOrder, TemplateStep
from fairwarning.arm.templates.template_values import TemplateValues
from fairwarning.arm.templates.values import (
    TYPE_NAMES,
    Definitions,
    Rules,
    TemplateError,
    at,
    boolean,
    check_value,
    is_secure,
    kind_of,
    quote,
    section,
)
from fairwarning.core.record import changed, record

__all__ = ["RESOURCES", "DeploymentScope", "ReferenceNeeded", "Template"]

NESTING = 5  # levels of nested deployments

_KEYS = {
    "$schema", "contentVersion", "apiProfile", "languageVersion", "metadata", "definitions",
    "parameters", "variables", "functions", "resources", "outputs",
}  # fmt: skip


class Template:
    """A valid template; an invalid one raises InvalidTemplate with the place of the error."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        scope: DeploymentScope,
        outer: "OuterTemplate | None" = None,
    ) -> None:
        raw = _template(properties)
        self.scope = scope
        self._level = outer.level + 1 if outer else 1
        if self._level > NESTING:
            raise TemplateError(f"deployments may be nested {NESTING} levels deep")
        self._budget = outer.budget if outer else ValueBudget()
        if outer is None:
            self._budget.spend_on(raw)  # with the nested templates in it
        if outer and outer.values:
            self._values, self._loops = outer.values, outer.loops
        else:
            sent = section(properties, "parameters", dict)
            self._values, self._loops = TemplateValues(raw, sent, scope, self._budget), {}
        self._names = ResourceNames(scope.group_id, outer.names if outer else None)
        self._functions = self._values.functions
        early = Evaluation(self._functions, self._budget, self._loops)
        builder = StepBuilder(scope, early, self._names)
        builder.build(raw)
        order = StepOrder(builder.steps, self._names.resolve, self._budget)
        self.resources = tuple(order.sorted())
        self.dependencies = order.dependencies()
        self._outputs = self._parse_outputs(section(raw, "outputs", dict))

    def resource(self, step: TemplateStep, known: KnownResources) -> dict[str, Any]:
        """Return the body of a resource: all but its type, name, version and dependencies."""
        evaluation = self._evaluation(known).in_loops(step.loops)
        with at(step.place, complete=True):
            body: dict[str, Any] = evaluation.deep_copy(evaluation.value(step.body))
        return body

    def nested(self, step: TemplateStep, known: KnownResources) -> "Template":
        """Return the template of a nested deployment."""
        body = self.resource(step, known)
        with at(f"{step.place}.properties", complete=True):
            properties = section(body, "properties", dict)
            inner = _is_inner(properties)
        outer = OuterTemplate(
            level=self._level,
            budget=self._budget,
            values=None if inner else self._values,
            names=None if inner else self._names,
            loops=step.loops,
        )
        try:
            return Template(
                {**properties, "template": step.template},
                changed(self.scope, name=step.name),
                outer,
            )
        except TemplateError as error:
            place = f"{step.place}.properties.template"
            raise TemplateError(error.message, place, complete=True) from None

    def outputs(self, known: KnownResources) -> dict[str, Any]:
        """Return the type and value of each output; secure outputs have no value."""
        evaluation = self._evaluation(known)
        outputs: dict[str, Any] = {}
        for name, output in self._outputs.items():
            with at(f"outputs.{name[:60]}", complete=True):
                result = _evaluate_output(output, evaluation)
            if result is not None:
                outputs[name] = result
        return outputs

    def parameters(self) -> dict[str, Any]:
        """Return the type and value of each parameter; secure parameters have no value."""
        return self._values.parameters()

    def _evaluation(self, known: KnownResources) -> Evaluation:
        functions = {**self._functions, **self._names.functions(known)}
        return Evaluation(functions, self._budget, self._loops)

    def _parse_outputs(self, declared: dict[str, Any]) -> dict[str, "_Output"]:
        outputs = {}
        for name, raw in declared.items():
            with at(f"outputs.{name[:60]}"):
                outputs[name] = _parse_output(raw, self._functions, self._values.definitions)
        return outputs


@record
class OuterTemplate:
    """What a nested template shares with the template around it.

    With inner scope it has values and names of its own.
    """

    level: int
    budget: ValueBudget
    values: TemplateValues | None
    names: ResourceNames | None
    loops: Loops


def _template(properties: object) -> Mapping[str, Any]:
    if not isinstance(properties, Mapping):
        raise TemplateError("a deployment needs properties: mode, template and parameters")
    check_not_linked(properties)
    if properties.get("onErrorDeployment") is not None:
        raise TemplateError("onErrorDeployment is not supported: deploy the earlier template")
    mode = properties.get("mode")
    if not isinstance(mode, str) or mode.lower() != "incremental":
        raise TemplateError("mode must be 'Incremental'; other modes are not supported")
    template = properties.get("template")
    if not isinstance(template, dict):
        raise TemplateError(f"template must be an object, not {kind_of(template)}")
    for key in template:
        if key not in _KEYS:
            raise TemplateError(
                f"{quote(key)} is not supported; supported are {', '.join(sorted(_KEYS))}"
            )
    return template


def _is_inner(properties: Mapping[str, Any]) -> bool:
    """Return whether a nested template has parameters and variables of its own."""
    options = section(properties, "expressionEvaluationOptions", dict)
    scope = options.get("scope") or "outer"
    if not isinstance(scope, str) or scope.lower() not in {"inner", "outer", "notspecified"}:
        raise TemplateError("expressionEvaluationOptions.scope must be 'inner' or 'outer'")
    return scope.lower() == "inner"


@record
class _Output:
    """A parsed output: its declaration, condition and value."""

    rules: Rules
    condition: Node
    node: Node


def _parse_output(raw: object, functions: Functions, definitions: Definitions) -> _Output:
    if not isinstance(raw, dict) or not ("value" in raw or isinstance(raw.get("copy"), dict)):
        raise TemplateError(
            f"an output needs a value, and one of the types {', '.join(TYPE_NAMES)}"
        )
    rules = definitions.resolve(raw, "an output needs a value; it")
    condition = parse_at("condition", raw.get("condition", True), functions)
    if "copy" not in raw:
        value = parse_at("value", raw["value"], functions)
        return _Output(rules=rules, condition=condition, node=value)
    with at("copy"):
        if not isinstance(raw["copy"], dict) or not {"count", "input"} <= set(raw["copy"]):
            raise TemplateError("the copy of an output needs a count and an input")
        count, item = (parse_at(key, raw["copy"][key], functions) for key in ("count", "input"))
    return _Output(rules=rules, condition=condition, node=CopyLoop("", count, item))


def _evaluate_output(output: _Output, evaluation: Evaluation) -> dict[str, Any] | None:
    """Return the type and value of an output; None if its condition is false."""
    if not boolean(evaluation.value(output.condition), "condition"):
        return None
    with at("value"):
        value = evaluation.deep_copy(evaluation.value(output.node))
        check_value({**output.rules, "allowedValues": None}, value)
    kind = output.rules["type"]
    return {"type": kind} if is_secure(output.rules) else {"type": kind, "value": value}
