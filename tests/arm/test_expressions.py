"""Expressions of templates: their syntax, functions, loops, errors and limits."""

import json
from typing import Any

import pytest

from fairwarning.arm.templates.evaluation import MAX_VALUES, Loops, TemplateFunction
from fairwarning.arm.templates.functions import FUNCTIONS
from fairwarning.arm.templates.values import DEPTH
from tests.arm import evaluation
from tests.arm.evaluation import Json, Value, cases

pytestmark = pytest.mark.spec("C1")

TREE = {"Name": "web", "list": [10, {"deep": [True]}], "nothing": None}
ALL_FUNCTIONS = {
    **FUNCTIONS,
    "tree": TemplateFunction(lambda: TREE),
    "echo": TemplateFunction(lambda value: value, ("any",)),
    "text": TemplateFunction(lambda: "x" * 1_000_000),
    "many": TemplateFunction(lambda: ["x"] * (MAX_VALUES // 3)),
}


def value(text: object, loops: Loops | None = None) -> Value:
    """Return the value of an expression inside these loops."""
    return evaluation.value(text, ALL_FUNCTIONS, loops)


def refusal(text: object) -> str:
    """Return the error message of an expression."""
    return evaluation.refusal(lambda: value(text))


def loop(name: str, count: object, repeated: object) -> Json:
    """Return an object with a property that is repeated."""
    return {"copy": [{"name": name, "count": count, "input": repeated}]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("concat('a')", "concat('a')"),
        ("", ""),
        ("[", "["),
        ("[a] b", "[a] b"),
        ("[concat('a'", "[concat('a'"),
        ("[[a]", "[a]"),
        ("[[a", "[a"),
        ("['it''s']", "it's"),
        ("['']", ""),
        ("[ 'a' ]", "a"),
        ("[-12]", -12),
        ("[ concat ( 'a' ,\n'b' ) ]", "ab"),
        ("[CONCAT('a', toLower('B'), TOUPPER('c'))]", "abC"),
    ],
)
def test_expressions_and_literal_strings(text: str, expected: object) -> None:
    """A string in brackets is an expression; [[ is a literal bracket; others are literal."""
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[tree().Name]", "web"),
        ("[tree().name]", "web"),
        ("[tree()['list'][0]]", 10),
        ("[tree().list[1].deep[0]]", True),
        ("[tree().list[length(createArray('a'))].deep]", [True]),
        ("[tree().nothing]", None),
        ("[if(true(), tree(), null()).Name]", "web"),
    ],
)
def test_parts(text: str, expected: object) -> None:
    """A dot or brackets select a property, case-insensitively, and a number selects an element."""
    assert value(text) == expected


def test_values_are_evaluated_at_any_depth_and_names_never() -> None:
    """Expressions in values are evaluated at any depth; names of properties are literal."""
    nested = {"[concat('a')]": [{"b": "[concat('a')]"}, 1, 1.5, None, True]}
    assert value(nested) == {"[concat('a')]": [{"b": "a"}, 1, 1.5, None, True]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *cases("expression_errors.txt"),
        *cases("function_errors.txt"),
        (loop("a", -1, 1), "an int from 0 to 800, not -1"),
        ({**loop("a", 1, 1), "a": 1}, "has another property 'a'"),
        ({"a": [1, "[no()]"]}, "a[1]: the function 'no' is not supported"),
        ({"a": {"copy": [{"name": "b"}]}}, "a.copy[0]: a copy needs a name, a count and an input"),
        (10**30, "must fit into 64 bits"),
    ],
)
def test_errors(text: object, message: str) -> None:
    """An error names the problem and its place."""
    assert message in refusal(text)


def test_errors_do_not_show_results_of_expressions() -> None:
    """A function's result may be a secret, so an error names only its type."""
    for text in (
        "[int(echo('hunter2'))]",
        "[bool(toLower(echo('hunter2')))]",
        "[tree()[echo('hunter2')]]",
        "[format(echo('{hunter2}'))]",
        "[and(true(), echo('hunter2'))]",
    ):
        assert "hunter2" not in refusal(text)


def test_length_and_depth_are_limited() -> None:
    """An expression that is too long or nested too deeply is refused, however it is nested."""
    assert value("['" + "x" * 24_572 + "']") == "x" * 24_572
    assert "may have 24576 characters" in refusal("['" + "x" * 24_573 + "']")
    fits = DEPTH - 1
    assert value("[" + "createArray(" * fits + "1" + ")" * fits + "]") is not None
    deep: Any = "a"
    for _ in range(50_000):
        deep = [deep]
    for text in (
        "[" + "not(" * 2_000 + "true()" + ")" * 2_000 + "]",
        "[" + "tree()[" * 2_000 + "1" + "]" * 2_000 + "]",
        "[" + "if(" * 2_000 + "]",
        deep,
    ):
        assert f"more than {DEPTH} levels deep" in refusal(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[concat(" + "text()," * 2_000 + "'')]", "create more than"),
        ("[createArray(many(), many(), many())]", "create more than"),
        ("[format('" + "{0}" * 8_000 + "', text())]", "may not write more than"),
        ("[split(text(), 'xx')]", "too long a string"),
        ("[split('x', createArray(text(), text()))]", "too many delimiters"),
    ],
    ids=range(5),
)
def test_the_values_that_expressions_create_are_limited(text: str, message: str) -> None:
    """A short expression cannot exhaust memory or run for a long time."""
    assert message in refusal(text)


def test_results_are_copies() -> None:
    """Changing a result does not change the values of the functions."""
    value("[tree().list]").append("more")
    assert TREE["list"] == [10, {"deep": [True]}]


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
    assert value(text, {"": 4, "nics": 2}) == expected


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
    message = refusal(text)
    assert "create more than" in message or "may not write more than" in message
