"""JSON as the Azure CLI sends it with a deployment: comments, bare keys, trailing commas."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.arm.templates.relaxed_json import LEVELS, decode
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
        ("", "line 1, column 1 needs a value"),
        ("{", "line 1, column 2 needs a key or a '}'"),
        ("{a 1}", "line 1, column 4 needs a ':' after the key 'a'"),
        ('{\n  "a": 1\n  "b": 2}', "line 3, column 3 needs a ',' or a '}'"),
        ("[1 2]", "needs a ',' or a ']'"),
        ("{,}", "needs a key or a '}'"),
        ("[,]", "needs a value"),
        ("{} {}", "line 1, column 4 needs the end of the content"),
        ('{"a": "open', "line 1, column 7 needs a quote that ends this string"),
        ("/* open", "line 1, column 1 needs a '*/' that ends this comment"),
        ("/ 1", "needs a value"),
        ("[yes]", "needs a value"),
        ("[01]", "needs a value"),
        ("[+1]", "needs a value"),
        ("[NaN]", "needs a value"),
        ("[" + "9" * 5_000 + "]", "needs a value"),
        (r"'\x41'", "needs a valid escape"),
        (r"'\ud83d'", "without an unpaired surrogate"),
        (b"\xff", "is not UTF-8"),
        ("[" * (LEVELS + 1), f"at most {LEVELS} levels"),
        ('{"a":' * (LEVELS + 1), f"at most {LEVELS} levels"),
        ("[" * 1_000_000, f"at most {LEVELS} levels"),
    ],
)
def test_errors_name_the_place(text: str | bytes, message: str) -> None:
    """An error says the line, the column and what the reader needs there."""
    assert message in refusal(text)


def test_reading_takes_linear_time() -> None:
    """Texts that make a backtracking reader slow are read or refused in one pass."""
    size = 20_000
    assert len(decode(("[" + "1,// x\n" * size + "]").encode())) == size
    assert decode(("/*" + "*" * size + "*/{}").encode()) == {}
    assert refusal("/*" * size)
    assert refusal('"' + "\\\\" * size)
    assert refusal("/" * size)


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
