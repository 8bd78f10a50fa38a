"""Functions of templates that depend only on their arguments."""

import json

import pytest

from tests.arm.evaluation import Json, cases, refusal, value

pytestmark = pytest.mark.spec("C1")


@pytest.mark.parametrize(("text", "result"), cases("functions.txt"))
def test_functions(text: str, result: str) -> None:
    """Each function behaves as Azure documents it."""
    actual, expected = value(f"[{text}]"), json.loads(result)
    assert (actual, type(actual)) == (expected, type(expected))


def test_names_that_depend_on_all_arguments() -> None:
    """A unique string has 13 letters and digits; a guid is a UUID of version 5."""
    for name in ("uniqueString", "guid"):
        texts = ("'a', 'b'", "'b', 'a'", "'ab'", "'a', 'c'")
        results = [value(f"[{name}({text})]") for text in texts]
        assert len({*results}) == len(texts)
        assert results[0] == value(f"[{name}('a', 'b')]") == results[0].lower()
    assert (len(results[0]), results[0][14]) == (36, "5")
    unique = value("[uniqueString('a')]")
    assert (len(unique), unique.isalnum()) == (13, True)


def loop(name: str, count: object, repeated: object) -> Json:
    """Return an object with a property that is repeated."""
    return {"copy": [{"name": name, "count": count, "input": repeated}]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[copyIndex()]", 4),
        ("[copyIndex(1)]", 5),
        ("[copyIndex('nics')]", 2),
        ("[copyIndex('NICS', 10)]", 12),
        (loop("d", 2, "[copyIndex('d', 1)]"), {"d": [1, 2]}),
        (loop("d", "[length('ab')]", {"lun": "[copyIndex('d')]"}), {"d": [{"lun": 0}, {"lun": 1}]}),
        ({**loop("d", 0, 1), "e": 1}, {"d": [], "e": 1}),
        (
            loop("a", 2, loop("b", 1, "[add(copyIndex('a'), copyIndex('b', 5))]")),
            {"a": [{"b": [5]}, {"b": [6]}]},
        ),
    ],
)
def test_loops(text: object, expected: object) -> None:
    """A loop has a number, which copyIndex returns: of the resource, or of a named loop."""
    assert value(text, loops={"": 4, "nics": 2}) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *cases("function_errors.txt"),
        (loop("a", -1, 1), "an int from 0 to 800, not -1"),
        ({**loop("a", 1, 1), "a": 1}, "has another property 'a'"),
    ],
)
def test_errors(text: object, message: str) -> None:
    """An error names the function and what it takes."""
    assert message in refusal(lambda: value(text))


@pytest.mark.parametrize(
    "text",
    [
        "[map(range(0, 10000), lambda('x', map(range(0, 10000), lambda('y', 1))))]",
        "[reduce(range(0, 10000), createArray(1), lambda('a', 'b', concat($a, $a)))]",
        "[reduce(range(0, 10000), range(0, 10000), lambda('a', 'b', if(contains($a, 0), $a, 1)))]",
        "[sort(range(0, 10000), lambda('a', 'b', contains(range(0, 10000), 1)))]",
        loop("a", 800, loop("b", 800, 1)),
        "[replace(replace(padLeft('', 999999, 'a'), 'a', 'b'), 'b', 'ccc')]",
        "[join(range(0, 10000), padLeft('', 1000))]",
    ],
)
def test_work_is_limited(text: object) -> None:
    """A short expression cannot run for long or write gigabytes."""
    message = refusal(lambda: value(text))
    assert "create more than" in message or "may not write more than" in message
