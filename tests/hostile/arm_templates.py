"""Hostile templates and template expressions."""

from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.arm.everything import TEMPLATE
from tests.hostile.arm_requests import HOW, changed_body

_WORDS = (
    "concat", "string", "format", "if", "equals", "length", "split", "join", "first", "last",
    "range",
    "substring", "padLeft", "uniqueString", "guid", "resourceId", "reference", "parameters",
    "variables",
    "resourceGroup", "subscription", "deployment", "createArray", "createObject", "json", "union",
    "replace", "toLower", "toUpper", "trim", "int", "bool", "base64", "base64ToString", "uri",
    "add", "mul",
    "sub", "div", "mod", "min", "max", "empty", "contains", "skip", "take", "indexOf", "not", "and",
    "or",
    "coalesce", "providers", "nothing", "CONCAT", "copyIndex", "newGuid", "utcNow", "items",
    "intersection",
)  # fmt: skip
_ATOMS = (
    "'a'", "''", "'it''s'", "'{0}'", "'{9}{x}'", "'é'", "'\N{SNOWMAN}'", "'\0'",
    "'" + "x" * 3_000 + "'", "'p'",
    "'v'", "'['", "'[[1]'", "'{\"a\": 1e400}'", "'[' ", "0", "1", "-1", "2", "3.5", "1000000",
    "9" * 25, "9" * 5_000,
    "true", "false", "null", "parameters('p')", "variables('v')", "variables('v').a[1]",
    "resourceGroup().id",
    "'/subscriptions/x/resourceGroups/Ours/providers/Microsoft.Network/virtualNetworks/one'",
    "'Microsoft.Network/virtualNetworks'", "'one'", "'2024-05-01'", "'Full'", ".a", "[0]", "(", ")",
    ",", "'", "[",
    "x", "", "''''", "((1))", "1 1", "a.b.c", "a[b]", "1.a", "'a'.b", "'a'[0]", "\\", "é", "\t",
    "\ud800",
)  # fmt: skip

_ENDS = ("", "", "", ".a", "[0]", "[-1]", "['a']", ".id", "?.x")


def _called(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    ends = st.sampled_from(_ENDS)
    call = st.builds(
        lambda name, args, end: f"{name}({', '.join(args)}){end}",
        st.sampled_from(_WORDS),
        st.lists(inner, max_size=4),
        ends,
    )
    deep = st.builds(
        lambda name, depth: f"{name}(" * depth + "'x'" + ")" * depth,
        st.sampled_from(_WORDS),
        st.sampled_from((2, 20, 70, 3_000)),
    )
    return call | call | call | deep


EXPRESSIONS = st.recursive(st.sampled_from(_ATOMS), _called, max_leaves=12)
"""Random strings similar to expressions."""


def random_expression(rng: Random, depth: int = 3) -> str:
    """Return a string similar to an expression."""
    if not depth or rng.random() < 0.3:
        return rng.choice(_ATOMS)
    arguments = (random_expression(rng, depth - 1) for _ in range(rng.randrange(4)))
    return f"{rng.choice(_WORDS)}({', '.join(arguments)}){rng.choice(_ENDS)}"


_CHANGES = st.lists(
    st.tuples(st.integers(0, 200), st.sampled_from(HOW), st.integers(0, 200)), max_size=4
)


def _filled(changes: list[tuple[int, str, int]], texts: list[tuple[int, str]]) -> Any:  # noqa: ANN401
    template = changed_body(TEMPLATE["properties"]["template"], changes)
    for place, text in texts:
        template = changed_body(template, [(place, "put", f"[{text}]")])
    return template


TEMPLATES = st.builds(
    _filled, _CHANGES, st.lists(st.tuples(st.integers(0, 200), EXPRESSIONS), max_size=2)
)
"""A valid template with a few mutations."""
