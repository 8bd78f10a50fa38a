"""Hostile templates and template expressions."""

from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.arm.everything import TEMPLATE
from tests.hostile.arm_requests import DATA, HOW, changed_body

_WORDS: list[str] = DATA["functions"]
_ATOMS: list[str] = [*DATA["atoms"], "'" + "x" * 3_000 + "'", "9" * 5_000]
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
