"""Evaluates templates of the tests: their values, and why one is refused."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairwarning.arm.templates.evaluation import Evaluation, Functions, Loops, ValueBudget
from fairwarning.arm.templates.expressions import parse
from fairwarning.arm.templates.template import DeploymentScope, Template
from fairwarning.core.errors import Refused

Json = dict[str, Any]
Value = Any

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/shop"
NETWORK = f"{GROUP}/providers/Microsoft.Network"
COMPUTE = f"{GROUP}/providers/Microsoft.Compute"
SCOPE = DeploymentScope(
    subscription=SUBSCRIPTION,
    group="shop",
    location="westeurope",
    name="deploy_1",
    tenant="the-tenant",
    endpoint="https://localhost:1",
    now=1_700_000_000.0,
    tags={"team": "web"},
)


def cases(name: str) -> list[tuple[str, str]]:
    """Return the expressions of a file and what each gives: `EXPRESSION -> RESULT` in each line."""
    lines = Path(__file__).with_name(name).read_text("utf-8").splitlines()
    parted = [line.partition(" -> ") for line in lines if line and not line.startswith("#")]
    return [(text, result) for text, _, result in parted]


def evaluate(template: Json, values: Json | None = None) -> Template:
    """Return a template with these values of its parameters."""
    parameters = {name: {"value": value} for name, value in (values or {}).items()}
    properties = {"mode": "Incremental", "template": template, "parameters": parameters}
    return Template(properties, SCOPE)


def refusal(make: Callable[[], object]) -> str:
    """Return the error message of an invalid template."""
    with pytest.raises(Refused) as caught:
        make()
    assert caught.value.code == "InvalidTemplate"
    return caught.value.message


def value(text: object, functions: Functions, loops: Loops | None) -> Value:
    """Return the value of an expression, inside these loops; $a is a variable of a lambda."""
    if isinstance(text, str):
        text = re.sub(r"\$(\w)", r"lambdaVariables('\1')", text)
    return Evaluation(functions, ValueBudget(), loops).value(parse(text, functions))


def refused(template: Json, values: Json | None = None) -> str:
    """Return the error message of a template that is invalid with these values, or its outputs."""
    return refusal(lambda: evaluate(template, values).outputs({}))


def net(name: str, *after: str, **more: object) -> Json:
    """Return a virtual network that depends on others."""
    kind = "Microsoft.Network/virtualNetworks"
    own = {"type": kind, "name": name, "apiVersion": "2022-01-01", "dependsOn": [*after]}
    return own | more


def names(template: Template) -> list[str]:
    """Return the names of resources in the order of deployment."""
    return [step.name for step in template.resources]


def order(*resources: Json) -> list[str]:
    """Return the names of these resources in the order of deployment."""
    return names(evaluate({"resources": [*resources]}))


def bodies(template: Template, known: Json | None = None) -> dict[str, Json]:
    """Return the body of each resource, by name."""
    return {step.name: template.resource(step, known or {}) for step in template.resources}


def outputs(template: Template, known: Json | None = None) -> Json:
    """Return the values of the outputs."""
    results = template.outputs(known or {})
    return {name: output["value"] for name, output in results.items()}


def output(text: object, values: Json | None = None, **sections: object) -> Value:
    """Return the value of an expression in an output."""
    declared = {name: {"type": _TYPES[type(value)]} for name, value in (values or {}).items()}
    wrapped = f"[createArray({text[1:-1]})]" if isinstance(text, str) else [text]
    result = {"result": {"type": "array", "value": wrapped}}
    template = {"parameters": declared, "outputs": result, **sections}
    return outputs(evaluate(template, values))["result"][0]


_TYPES = {str: "string", int: "int", bool: "bool", list: "array", dict: "object"}
