"""Templates that are made to break their evaluation."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairwarning.arm.templates.functions import FUNCTIONS
from fairwarning.arm.templates.template import ReferenceNeeded, Template
from fairwarning.arm.templates.values import DEPTH
from fairwarning.core.errors import Refused
from tests.arm.evaluation import (
    NETWORK,
    SCOPE,
    Json,
    Value,
    evaluate,
    net,
    refused,
    versions,
)


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


def test_the_deepest_template_that_is_allowed() -> None:
    """The limit on levels is well below the limit of Python's stack."""
    calls = DEPTH - 1
    texts = f"[{'createArray(' * calls}1{')' * calls}]"
    lists: Any = 1
    for _ in range(calls):
        lists = [lists]
    outputs = {n: {"type": "array", "value": v} for n, v in (("a", texts), ("b", lists))}
    results = evaluate({"outputs": outputs}).outputs({})
    assert results["a"] == results["b"]


_FUNCTIONS = [*FUNCTIONS, "parameters", "variables", "reference", "providers", "resourceId"]
_FUNCTIONS += ["resourceGroup", "subscription", "deployment", "copyIndex", "if", "x.y"]
_ATOMS = st.sampled_from(
    ["'p'", "'v'", "'net'", "'A.B/c'", "'it''s'", "''", "0", "-1", "99999999999999999999", "'{0}'"]
)


def _call(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parts = st.sampled_from(["", "", "", ".id", "[0]", "['a']", ".apiVersions[0]", "[", ".", "]"])
    arguments = st.lists(inner, max_size=3).map(",".join)
    return st.builds("{}({}){}".format, st.sampled_from(_FUNCTIONS), arguments, parts)


_valid = st.recursive(_ATOMS, _call, max_leaves=6).map("[{}]".format)


@st.composite
def _mangled(draw: st.DrawFn) -> str:
    """An expression with a part replaced by other characters."""
    text = draw(_valid)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 3)))
    return text[:start] + draw(st.text("[](),.'\\{} 0a\ud800", max_size=3)) + text[end:]


_texts = _valid | _mangled() | st.sampled_from(["net", "string", "array", "A.B/c", "2022-01-01"])
_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.just(10**400)
_json = st.recursive(
    _scalars | _texts | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "copy", "type", "value", "name"]) | st.text(max_size=4),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


def _usually(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(right, right, right, _json)


_resources = st.fixed_dictionaries(
    {
        "type": _usually(st.just("Microsoft.Network/virtualNetworks")),
        "name": _usually(st.sampled_from(["net", "[variables('v')]", "other"])),
        "apiVersion": _usually(st.just("2022-01-01")),
    },
    optional={
        "dependsOn": _usually(st.lists(st.sampled_from(["net", "other"]) | _texts, max_size=2)),
        "condition": _usually(st.booleans()),
        "properties": _json,
        "tags": _json,
        "resources": _usually(st.just([net("s", type="subnets")])),
    },
)
_parameters = st.fixed_dictionaries(
    {"type": _usually(st.sampled_from(["string", "array", "int", "secureObject"]))},
    optional={"defaultValue": _json, "allowedValues": _json, "minLength": _json},
)
_templates = st.fixed_dictionaries(
    {},
    optional={
        "parameters": _usually(st.dictionaries(st.just("p"), _usually(_parameters))),
        "variables": _usually(st.fixed_dictionaries({"v": _json, "w": _json})),
        "resources": _usually(st.lists(_usually(_resources), max_size=3)),
        "outputs": _usually(
            st.fixed_dictionaries({"it": st.fixed_dictionaries({"type": _texts, "value": _json})})
        ),
        "functions": _json,
        "metadata": _json,
    },
)
_properties = st.fixed_dictionaries(
    {"mode": _usually(st.just("Incremental")), "template": _usually(_templates)},
    optional={"parameters": _usually(st.fixed_dictionaries({"p": _usually(_json)}))},
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


def _evaluate_all(properties: Value, known: Json) -> None:
    template = Template(properties, SCOPE, versions)
    for step in template.resources:
        _attempt(lambda step=step: template.resource(step, known))  # type: ignore[misc]
    _attempt(lambda: template.outputs(known))


@given(_properties | _json, _json)
def test_any_template_is_evaluated_or_refused(properties: Value, document: Value) -> None:
    """Any template, however mangled, has a result, is refused or needs a resource."""
    known = {f"{NETWORK}/virtualNetworks/net".lower(): {"properties": document}}
    _attempt(lambda: _evaluate_all(properties, known))


@given(_valid | _mangled())
def test_any_expression_is_evaluated_or_refused(text: str) -> None:
    """An expression in an otherwise valid template has a value or is refused."""
    template = {
        "parameters": {"p": {"type": "object", "defaultValue": {"a": [1]}}},
        "variables": {"v": ["a", {"id": None}]},
        "resources": [net("net", properties={"it": text})],
        "outputs": {"it": {"type": "string", "value": text}},
    }
    _attempt(lambda: _evaluate_all({"mode": "Incremental", "template": template}, {}))
