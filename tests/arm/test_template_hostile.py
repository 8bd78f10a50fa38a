"""Templates that are made to break their evaluation."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairwarning.arm.templates.functions import FUNCTIONS
from fairwarning.arm.templates.template import ReferenceNeeded
from fairwarning.core.errors import Refused
from tests.arm.evaluation import NETWORK, Value, evaluate, net, refused
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
