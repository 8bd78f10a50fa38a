"""Templates that are made to break their evaluation."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.arm.templates.functions import FUNCTIONS
from fairwarning.arm.templates.template import ReferenceNeeded
from fairwarning.core.errors import Refused
from tests.arm.evaluation import NETWORK, Value, evaluate, net, refusal, refused
from tests.hostile.arm_templates import EXPRESSIONS, TEMPLATES


def test_variables_that_double_each_other_are_refused() -> None:
    """Strings, arrays, objects and nesting levels do not grow without limit."""
    for pattern in (
        "[concat(variables('v{0}'), variables('v{0}'))]",
        "[createArray(variables('v{0}'), variables('v{0}'))]",
        {"a": "[variables('v{0}')]", "b": "[variables('v{0}')]"},
        ["[variables('v{0}')]"],
    ):
        values = [json.loads(json.dumps(pattern).replace("{0}", str(n))) for n in range(100)]
        variables = {"v0": "seed"} | {f"v{n + 1}": value for n, value in enumerate(values)}
        message = refused({"variables": variables})
        assert "create more than" in message or "levels deep" in message


LONG = "x" * 20_000
MANY = [{"type": "int", "value": number} for number in range(5_000)]
INNER = {"resources": [], "variables": {"v": [0] * 4_000}, "outputs": {}}


def nested(count: int, template: object, scope: str = "inner") -> Value:
    """Return a deployment in a loop."""
    options = {"expressionEvaluationOptions": {"scope": scope}}
    return {
        "type": "Microsoft.Resources/deployments",
        "apiVersion": "2022-09-01",
        "name": "[concat('d', copyIndex())]",
        "copy": {"name": "d", "count": count},
        "properties": {"mode": "Incremental", "template": template, **options},
    }


def chain(count: int, after: Value, **members: object) -> Value:
    """Return networks in a loop."""
    copy = {"name": "second", "count": count}
    return {**net("[concat('n', copyIndex())]"), "copy": copy, "dependsOn": after, **members}


@pytest.mark.parametrize(
    "template",
    [
        {"resources": [nested(800, INNER)]},
        {
            "resources": [
                nested(800, {"resources": [], "outputs": {"o": {"type": "array", "value": MANY}}})
            ]
        },
        {"resources": [nested(800, {"resources": []}) | {"comments": MANY, "tags": MANY * 20}]},
        {
            "resources": [
                chain(400, []) | {"copy": {"name": "first", "count": 400}},
                chain(400, ["first", "First", "FIRST", "fIrst"])
                | {"name": "[concat('m', copyIndex())]"},
            ]
        },
        {"resources": [chain(800, [f"/{LONG}"] * 10)]},
        {"resources": [chain(800, [], name=LONG)]},
        {"resources": [chain(800, [], subscriptionId=LONG, existing=True)]},
        {"resources": [chain(400, [], resources=[net("c", type="subnets", properties=MANY)])]},
        {
            "definitions": {"d": {"type": "int", **dict.fromkeys(map(str, range(9_000)), 1)}},
            "parameters": {
                f"p{n}": {"$ref": "#/definitions/d", "defaultValue": 1} for n in range(9_000)
            },
        },
        {
            "functions": [
                {
                    "namespace": "f",
                    "members": {
                        f"m{n}": {"output": {"type": "int", "value": 1}} for n in range(9_000)
                    },
                }
            ]
        },
    ],
)
def test_short_templates_cannot_run_for_long(template: Value) -> None:
    """A deployment has one budget, with its nested templates, loops and dependencies."""

    def run() -> None:
        evaluated = evaluate({"resources": [], **template})
        for step in evaluated.resources:
            evaluated.nested(step, {})

    message = refusal(run)
    assert "create more than" in message or "characters" in message


def test_errors_that_are_ignored_are_cheap() -> None:
    """What a reference names may be unknown; the error names few of the variables."""
    variables = {f"v{n}": n for n in range(20_000)}
    properties = {f"p{n}": "[reference(variables('none'))]" for n in range(20_000)}
    evaluated = evaluate({"variables": variables, "resources": [net("a", properties=properties)]})
    message = refusal(lambda: evaluated.resource(evaluated.resources[0], {}))
    assert "declared are: v0, v1, " in message
    assert len(message) < 300


def test_deep_nesting_is_refused() -> None:
    """Values that are nested thousands of levels deep are refused, without a RecursionError."""
    deep: Any = "x"
    within: Any = []
    for _ in range(20_000):
        deep = {"a": [deep]}
    for _ in range(700):
        within = [net("a", type="b", resources=within)]
    declared = {"type": "array", "allowedValues": [deep]}
    chain = {f"v{n}": f"[variables('v{n + 1}')]" for n in range(200)}
    for template, values in (
        ({"variables": {"a": deep}}, {}),
        ({"variables": chain}, {}),
        ({"resources": [net("a", properties=deep)]}, {}),
        ({"resources": [net("a", resources=within)]}, {}),
        ({"resources": [net("a", dependsOn=[deep])]}, {}),
        ({"parameters": {"p": {"type": "object"}}}, {"p": deep}),
        ({"parameters": {"p": declared}}, {"p": ["x"]}),
        ({"parameters": {"p": {"type": deep}}}, {"p": "x"}),
        ({"outputs": {"it": {"type": deep, "value": deep}}}, {}),
        ({"outputs": {"it": {"type": "object", "value": deep}}}, {}),
    ):
        refused(template, values)


def test_numbers_that_are_too_large_are_refused() -> None:
    """This includes numbers that Python refuses to format."""
    huge = 10**5000
    for template, values in (
        ({"variables": {"a": huge}}, {}),
        ({"parameters": {"p": {"type": "int"}}}, {"p": huge}),
        ({"parameters": {"p": {"type": huge}}}, {"p": 1}),
        ({"parameters": {"p": {"type": "int", "allowedValues": [huge]}}}, {"p": 1}),
        ({"resources": [net("a", dependsOn=[huge])]}, {}),
        ({"resources": [net("a") | {"name": huge}]}, {}),
        ({"outputs": {"it": {"type": huge, "value": 1}}}, {}),
    ):
        refused(template, values)


_CALLS = st.builds(
    lambda name, arguments: f"{name}({', '.join(arguments)})",
    st.sampled_from(sorted([*FUNCTIONS, "list", "listKeys", "resourceInfo", "references"])),
    st.lists(EXPRESSIONS, max_size=3),
)


def _attempt(work: Callable[[], object]) -> None:
    """Run the work; it may succeed, be refused or need a resource, and nothing else."""
    try:
        work()
    except (ReferenceNeeded, Refused) as error:
        caught = error
    else:
        return
    if isinstance(caught, ReferenceNeeded):
        assert caught.id == caught.id.lower()
    else:
        assert caught.code == "InvalidTemplate"


def _evaluate_all(template: Value) -> None:
    known = {f"{NETWORK}/virtualNetworks/one".lower(): {"properties": {"a": [1, None]}}}
    evaluated = evaluate(template)
    for step in evaluated.resources:
        _attempt(lambda step=step: evaluated.resource(step, known))  # type: ignore[misc]
    _attempt(lambda: evaluated.outputs(known))


@given(TEMPLATES)
def test_any_template_is_evaluated_or_refused(template: Value) -> None:
    """Any template, however mutated, has a result, is refused or needs a resource."""
    _attempt(lambda: _evaluate_all(template))


@given(_CALLS | EXPRESSIONS)
def test_any_expression_is_evaluated_or_refused(text: str) -> None:
    """An expression in an otherwise valid template has a value or is refused."""
    template = {
        "parameters": {"p": {"type": "object", "defaultValue": {"a": [1]}}},
        "variables": {"v": ["a", {"id": None}]},
        "resources": [net("one", properties={"it": f"[{text}]"})],
        "outputs": {"it": {"type": "string", "value": f"[{text}]"}},
    }
    _attempt(lambda: _evaluate_all(template))
