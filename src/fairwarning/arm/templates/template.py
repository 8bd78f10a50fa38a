"""A deployment template: its resources, their order, their bodies, and its outputs.

This package only evaluates. The caller deploys the resources in order, and reads the existing
resources that expressions refer to.
"""

from collections.abc import Mapping
from typing import Any

from fairwarning.arm.templates.evaluation import CopyLoop, Evaluation, Loops, Node, ValueBudget
from fairwarning.arm.templates.expressions import parse_at
from fairwarning.arm.templates.names import (
    DeploymentScope,
    KnownResources,
    ReferenceNeeded,
    ResourceNames,
    TemplateStep,
)
from fairwarning.arm.templates.steps import RESOURCES, StepBuilder, StepOrder, check_not_linked
from fairwarning.arm.templates.template_values import TemplateValues
from fairwarning.arm.templates.values import (
    TYPE_NAMES,
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
from fairwarning.core.record import changed

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
        outer: "Template | None" = None,
        loops: Loops | None = None,
    ) -> None:
        """Nested in `outer`, it shares the limits; with loops, also the values and names."""
        raw = _template(properties)
        self.scope = scope
        self.level: int = outer.level + 1 if outer else 1
        if self.level > NESTING:
            raise TemplateError(f"deployments may be nested {NESTING} levels deep")
        self.budget: ValueBudget = outer.budget if outer else ValueBudget()
        if outer is None:
            self.budget.spend_on(raw)  # with the nested templates in it
        self._loops: Loops = loops or {}
        self.values: TemplateValues
        names_around: ResourceNames | None = None
        if outer and loops is not None:
            self.values, names_around = outer.values, outer.names
        else:
            sent = section(properties, "parameters", dict)
            self.values = TemplateValues(raw, sent, scope, self.budget)
        self.names: ResourceNames = ResourceNames(scope.group_id, names_around)
        self._functions = self.values.functions
        early = Evaluation(self._functions, self.budget, self._loops)
        builder = StepBuilder(scope, early, self.names)
        builder.build(raw)
        order = StepOrder(builder.steps, self.names.resolve, self.budget)
        self.resources = tuple(order.sorted())
        self.dependencies = order.dependencies()
        self.bodies: dict[str, dict[str, Any]] = {}  # by the key of the step: evaluated before
        self._outputs: dict[str, tuple[Rules, Node, Node]] = {}
        for name, output in section(raw, "outputs", dict).items():
            with at(f"outputs.{name[:60]}"):
                self._outputs[name] = self._parse_output(output)

    def resource(self, step: TemplateStep, known: KnownResources) -> dict[str, Any]:
        """Return the body of a resource: all but its type, name, version and dependencies."""
        evaluation = self._evaluation(known).in_loops(step.loops)
        with at(step.place, complete=True):
            body: dict[str, Any] = evaluation.deep_copy(evaluation.value(step.body))
        return body

    def nested(self, step: TemplateStep, known: KnownResources) -> "Template":
        body = self.resource(step, known)
        with at(f"{step.place}.properties", complete=True):
            properties = section(body, "properties", dict)
            loops = None if _is_inner(properties) else step.loops
        properties = {**properties, "template": step.template}
        try:
            return Template(properties, changed(self.scope, name=step.name), self, loops)
        except TemplateError as error:
            place = f"{step.place}.properties.template"
            raise TemplateError(error.message, place, complete=True) from None

    def outputs(self, known: KnownResources) -> dict[str, Any]:
        """Return the type and value of each output; secure outputs have no value."""
        evaluation = self._evaluation(known)
        outputs: dict[str, Any] = {}
        for name, (rules, condition, node) in self._outputs.items():
            with at(f"outputs.{name[:60]}", complete=True):
                if not boolean(evaluation.value(condition), "condition"):
                    continue
                with at("value"):
                    value = evaluation.deep_copy(evaluation.value(node))
                    check_value({**rules, "allowedValues": None}, value)
            shown = {} if is_secure(rules) else {"value": value}
            outputs[name] = {"type": rules["type"], **shown}
        return outputs

    def parameters(self) -> dict[str, Any]:
        """Return the type and value of each parameter; secure parameters have no value."""
        return self.values.parameters()

    def _evaluation(self, known: KnownResources) -> Evaluation:
        functions = {**self._functions, **self.names.functions(known)}
        return Evaluation(functions, self.budget, self._loops)

    def _parse_output(self, raw: object) -> tuple[Rules, Node, Node]:
        """Return the declaration of an output, and its parsed condition and value."""
        if not isinstance(raw, dict) or not ("value" in raw or isinstance(raw.get("copy"), dict)):
            raise TemplateError(
                f"an output needs a value, and one of the types {', '.join(TYPE_NAMES)}"
            )
        rules = self.values.definitions.resolve(raw, "an output needs a value; it")
        condition = parse_at("condition", raw.get("condition", True), self._functions)
        if "copy" not in raw:
            return rules, condition, parse_at("value", raw["value"], self._functions)
        loop = raw["copy"]
        with at("copy"):
            if not isinstance(loop, dict) or not {"count", "input"} <= set(loop):
                raise TemplateError("the copy of an output needs a count and an input")
            count = parse_at("count", loop["count"], self._functions)
            item = parse_at("input", loop["input"], self._functions)
        return rules, condition, CopyLoop("", count, item)


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
