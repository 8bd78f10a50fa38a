"""JSON as the Azure CLI sends it with a deployment: comments, bare keys, trailing commas."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.arm.templates.relaxed_json import decode
from fairwarning.core.errors import Refused

pytestmark = pytest.mark.spec("C2")


def refusal(text: str | bytes) -> str:
    """Return the error message for a text."""
    with pytest.raises(Refused) as caught:
        decode(text if isinstance(text, bytes) else text.encode())
    assert caught.value.code == "InvalidRequestContent"
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", {}),
        ("[]", []),
        ("{a: 1}", {"a": 1}),
        ("{$schema: 'x', contentVersion: \"1\",}", {"$schema": "x", "contentVersion": "1"}),
        ("[1, 2,]", [1, 2]),
        ("// before\n{/* in */ 'a' /* it */ : // x\n 1} // after", {"a": 1}),
        (
            '{"url": "https://example.org/a" /* not a // comment */}',
            {"url": "https://example.org/a"},
        ),
        ("/***/ [/**/]", []),
        ("['it\\'s', 'say \"x\"', \"it's\"]", ["it's", 'say "x"', "it's"]),
        ("\"[concat('a',\n  'b')]\"", "[concat('a',\n  'b')]"),
        (r'"\u00e4\n\t\\\/\" \ud83d\ude00"', 'ä\n\t\\/" 😀'),
        ("[true, false, null, -0, 12, 1.5, -2e3]", [True, False, None, 0, 12, 1.5, -2000.0]),
        ("\ufeff{}", {}),
        ("{ä: 1}", {"ä": 1}),
    ],
)
def test_what_is_allowed(text: str, expected: object) -> None:
    """The reader accepts what Azure accepts, besides strict JSON."""
    assert decode(text.encode()) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: Expecting value"),
        ("{", "line 1: Expecting property name"),
        ("{a 1}", "line 1: Expecting property name"),
        ('{\n  "a": /* \n */ 1\n  "b": 2}', "line 4: Expecting ',' delimiter"),
        ("// one\n{} {}", "line 2: Extra data"),
        ("{a: 'line\nbreak', b: 'open}", "line 2: Expecting value"),
        ("/* open", "line 1: Expecting value"),
        ("[yes]", "line 1: Expecting value"),
        ("[01]", "line 1: Expecting ',' delimiter"),
        ("[NaN]", "a number is not JSON"),
        ("[" + "9" * 5_000 + "]", "too many digits"),
        (r"'\x41'", "line 1: Invalid \\escape"),
        (r"'\ud83d'", "a string has an unpaired surrogate"),
        (b"\xff", "is not UTF-8"),
        ("[" * 1_000_000, "it is nested too deeply"),
    ],
)
def test_errors_name_the_line(text: str | bytes, message: str) -> None:
    """An error says the line, and what is wrong there."""
    assert message in refusal(text)


def test_reading_takes_linear_time() -> None:
    """Texts that make a backtracking reader slow are read or refused in one pass."""
    size = 20_000
    assert len(decode(("[" + "1,// x\n" * size + "]").encode())) == size
    assert decode(("/*" + "*" * size + "*/{}").encode()) == {}
    for text in ("/*", ",/*", '\\"', "\\'", "'a", "/", "a ", ", ", ",/**/", "*/,/*"):
        assert refusal(text * size)


_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(_values, st.booleans())
def test_strict_json_has_its_usual_meaning(value: object, ascii_only: bool) -> None:
    """Every JSON text is read as any other decoder reads it."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=2)
    assert decode(text.encode(errors="surrogatepass")) == value


@given(st.text("{}[]:,'\"/*\\\n a1u"))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises another error."""
    with suppress(Refused):
        decode(text.encode())
