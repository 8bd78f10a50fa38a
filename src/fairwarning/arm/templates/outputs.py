"""Outputs of a template: a value, or one for each number of a loop."""

from typing import Any

from fairwarning.arm.templates.calls import CopyLoop, Functions, Node
from fairwarning.arm.templates.evaluation import Evaluation
from fairwarning.arm.templates.expressions import parse_at
from fairwarning.arm.templates.types import TYPE_NAMES, Definitions, Rules, check_value, is_secure
from fairwarning.arm.templates.values import TemplateError, at, boolean
from fairwarning.core.record import record


@record
class TemplateOutput:
    """A parsed output: its declaration, condition and value."""

    rules: Rules
    condition: Node
    node: Node


def parse_output(raw: object, functions: Functions, definitions: Definitions) -> TemplateOutput:
    """Parse an output; raise if it is not valid."""
    if not isinstance(raw, dict) or not ("value" in raw or isinstance(raw.get("copy"), dict)):
        raise TemplateError(
            f"an output needs a value, and one of the types {', '.join(TYPE_NAMES)}"
        )
    rules = definitions.resolve(raw, "an output needs a value; it")
    condition = parse_at("condition", raw.get("condition", True), functions)
    if "copy" not in raw:
        value = parse_at("value", raw["value"], functions)
        return TemplateOutput(rules=rules, condition=condition, node=value)
    with at("copy"):
        if not isinstance(raw["copy"], dict) or not {"count", "input"} <= set(raw["copy"]):
            raise TemplateError("the copy of an output needs a count and an input")
        count, item = (parse_at(key, raw["copy"][key], functions) for key in ("count", "input"))
    return TemplateOutput(rules=rules, condition=condition, node=CopyLoop("", count, item))


def evaluate_output(
    output: TemplateOutput, evaluation: Evaluation, definitions: Definitions
) -> dict[str, Any] | None:
    """Return the type and value of an output; None if its condition is false."""
    if not boolean(evaluation.value(output.condition), "condition"):
        return None
    with at("value"):
        value = evaluation.deep_copy(evaluation.value(output.node))
        check_value({**output.rules, "allowedValues": None}, value, definitions)
    kind = output.rules["type"]
    return {"type": kind} if is_secure(output.rules) else {"type": kind, "value": value}
