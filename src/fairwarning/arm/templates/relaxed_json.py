"""JSON as people write templates, and as the Azure CLI sends them with a deployment.

It allows comments, keys without quotes, single quotes, trailing commas, and line breaks in strings.
Reading takes one pass over the text.
"""

import re
from typing import Any, NoReturn

from fairwarning.core.errors import Refused

LEVELS = 100  # of nesting; real templates have about 20

_SPACE = re.compile(r"[\s\ufeff]*")
_LINE = re.compile(r"[^\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]|\\(?s:.))*+"|' + r"'(?:[^'\\]|\\(?s:.))*+'")
_WORD = re.compile(r"[^\s,:\[\]{}\"'/]+")
_KEY = re.compile(r"[^\W\d]\w*|[$_][\w$]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<rest>\.[0-9]+)?(?P<power>[eE][+-]?[0-9]+)?", re.ASCII)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|(?s:.))")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"} | {c: c for c in "\"'\\/"}
_WORDS = {"true": True, "false": False, "null": None}
_DIGITS = 400  # of a number; Python refuses to read integers of some thousands


def decode(raw: bytes) -> Any:  # noqa: ANN401  (any JSON)
    """Return the value of a text; raise with the line and the column of an error."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise Refused("InvalidRequestContent", "The request content is not UTF-8.") from None
    return _Reader(text).read()


class _Reader:
    """Reads a text by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def read(self) -> Any:  # noqa: ANN401  (any JSON)
        value = self._value(1)
        if self._next():
            self._fail("the end of the content")
        return value

    def _next(self) -> str:
        """Skip spaces and comments, and return the next character; "" at the end."""
        self._skip(_SPACE)
        while (mark := self._text[self._position : self._position + 2]) in {"//", "/*"}:
            if mark == "//":
                self._skip(_LINE)
            else:
                self._skip_comment()
            self._skip(_SPACE)
        return mark[:1]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._position)
        assert match is not None
        self._position = match.end()

    def _skip_comment(self) -> None:
        end = self._text.find("*/", self._position + 2)
        if end < 0:
            self._fail("a '*/' that ends this comment")
        self._position = end + 2

    def _value(self, level: int) -> Any:  # noqa: ANN401  (any JSON)
        mark = self._next()
        if mark in {"{", "["} and level > LEVELS:
            self._fail(f"at most {LEVELS} levels of nesting")
        if mark == "{":
            return self._object(level)
        if mark == "[":
            return self._array(level)
        return self._string() if mark in {'"', "'"} else self._scalar()

    def _object(self, level: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self._position += 1
        while (mark := self._next()) != "}":
            key = self._string() if mark in {'"', "'"} else self._bare_key()
            if self._next() != ":":
                self._fail(f"a ':' after the key {key[:60]!r}")
            self._position += 1
            members[key] = self._value(level + 1)
            self._separator("}")
        self._position += 1
        return members

    def _array(self, level: int) -> list[Any]:
        items: list[Any] = []
        self._position += 1
        while self._next() != "]":
            items.append(self._value(level + 1))
            self._separator("]")
        self._position += 1
        return items

    def _separator(self, end: str) -> None:
        """Skip the comma after a member; the last member needs none."""
        mark = self._next()
        if mark == ",":
            self._position += 1
        elif mark != end:
            self._fail(f"a ',' or a '{end}'")

    def _bare_key(self) -> str:
        match = _KEY.match(self._text, self._position)
        if match is None:
            self._fail("a key or a '}'")
        self._position = match.end()
        return match[0]

    def _string(self) -> str:
        match = _STRING.match(self._text, self._position)
        if match is None:
            self._fail("a quote that ends this string")
        body = match[0][1:-1]
        if "\\" in body:
            body = _ESCAPE.sub(self._unescape, body)
            try:  # joins the two halves of a character
                body = body.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                self._fail("a string without an unpaired surrogate")
        self._position = match.end()
        return body

    def _unescape(self, match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        if code not in _ESCAPED:
            self._fail("a valid escape, such as \\n, in this string")
        return _ESCAPED[code]

    def _scalar(self) -> bool | float | None:
        match = _WORD.match(self._text, self._position)
        word = match[0] if match else ""
        number = _NUMBER.fullmatch(word)
        if word not in _WORDS and (number is None or len(word) > _DIGITS):
            self._fail("a value: an object, an array, a string in quotes, a number, true or null")
        self._position += len(word)
        if number is None:
            return _WORDS[word]
        return float(word) if number["rest"] or number["power"] else int(word)

    def _fail(self, expected: str) -> NoReturn:
        """Raise the error for the current position."""
        line = self._text.count("\n", 0, self._position) + 1
        column = self._position - self._text.rfind("\n", 0, self._position)
        text = (
            "The request content was invalid and could not be deserialized: line "
            f"{line}, column {column} needs {expected}."
        )
        raise Refused("InvalidRequestContent", text)
