"""The language inside ARM templates: what `[concat('vm', parameters('suffix'))]` stands for.

Here are its grammar, its evaluation and the functions that need nothing but their arguments. What
only a deployment knows comes in as further functions. No refusal shows what an expression gave,
for that may be a secret: it shows what the template says, and what kind of value was found.
"""

import json
import re
from base64 import b32encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from fairwarning.core.errors import Refused
from fairwarning.core.record import short_record

EXPRESSION_CHARACTERS = 24_576  # Azure's own limit
DEPTH = 64  # levels; real templates have some fifteen, and Python's stack holds several times this
WORK = 200_000  # values that one evaluation may make: about a second's work
TEXT_CHARACTERS = 1_000_000  # what one call may write or look through; Azure stops far below
INT_BITS = 64  # Azure's integers
MANY = EXPRESSION_CHARACTERS  # arguments, of which there is no other bound
_CHARACTERS_OF_A_VALUE = 64  # a text of this length is as much work as a value
_SHOWN_CHARACTERS = 60  # of a text in a refusal

Value = Any
"""Whatever JSON can say."""

Node = Any
"""A value in which every expression has been read: there is a Call in place of each."""


# --- Refusing -----------------------------------------------------------------------------------


class Wrong(Refused):
    """Something in the template is wrong, at a place that is known from the outside in."""

    def __init__(self, what: str, where: str = "", *, whole: bool = False) -> None:
        super().__init__("InvalidTemplate", f"{where}: {what}" if where else what)
        self.what = what
        self.where = where
        self.whole = whole


@contextmanager
def at(place: str, *, whole: bool = False) -> Iterator[None]:
    """Whatever is wrong inside is wrong at this place; a whole place stands in no other."""
    try:
        yield
    except Wrong as wrong:
        if wrong.whole:
            raise
        dot = "." if wrong.where and not wrong.where.startswith("[") else ""
        raise Wrong(wrong.what, f"{place}{dot}{wrong.where}", whole=whole) from None


def shown(value: object) -> str:
    """What the template says, if it is short, and otherwise how it begins or what kind it is."""
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}...")
    kind = kind_of(value)
    return str(value).lower() if kind in {"int", "bool"} else kind


def _too_deep() -> Wrong:
    return Wrong(f"this goes more than {DEPTH} levels deep")


# --- Values -------------------------------------------------------------------------------------

_KINDS = {
    bool: "bool",
    str: "string",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def kind_of(value: object) -> str:
    """What ARM calls values like this one; a whole number that is too large is none of them."""
    for kind, name in _KINDS.items():
        if isinstance(value, kind):
            return name
    return "int" if isinstance(value, int) and value.bit_length() < INT_BITS else "unknown"


def _plain(value: Value) -> Value:
    if kind_of(value) == "unknown":
        raise Wrong(f"a value must be JSON, and a whole number must fit into {INT_BITS} bits")
    return value


def canonical(value: Value) -> str:
    """The same text for equal values only: 1 is not true, and properties have no order."""
    return json.dumps(value, sort_keys=True)


def text_of(value: Value) -> str:
    """A value as string() writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return "" if value is None else str(value)


# --- Reading ------------------------------------------------------------------------------------


@short_record
class Call:
    """A function with its arguments, and which part of what it gives is meant."""

    name: str
    arguments: tuple[Node, ...]
    path: tuple[Node, ...]

    def __str__(self) -> str:
        first = self.arguments[0] if self.arguments else None
        return f"{self.name}({shown(first) if isinstance(first, str) else ''})"


@short_record
class Function:
    """What a name stands for: the kinds of its arguments, of which the last may repeat."""

    call: Callable[..., Value]
    takes: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None

    def count(self, call: Call) -> Call:
        """The call, if it has as many arguments as it must."""
        least = len(self.takes) if self.least is None else self.least
        most = len(self.takes) if self.most is None else self.most
        if least <= len(call.arguments) <= most:
            return call
        bounds = f"at least {least}" if most == MANY else f"{least} to {most}"
        number = least if least == most else bounds
        raise Wrong(f"{call} takes {number} arguments, not {len(call.arguments)}")

    def given(self, arguments: list[Value]) -> Value:
        """What it makes of these arguments."""
        for number, argument in enumerate(arguments):
            kinds = self.takes[min(number, len(self.takes) - 1)]
            if kinds != "any" and kind_of(argument) not in kinds.split(" or "):
                found = kind_of(argument)
                raise Wrong(f"takes {kinds} as its argument {number + 1}, not {found}")
        return self.call(*arguments)


Functions = Mapping[str, Function]
"""By name, in lower case."""


def read(value: object, functions: Functions, depth: int = 1) -> Node:
    """The value with every expression in it read; names of properties are never expressions."""
    if depth > DEPTH:
        raise _too_deep()
    if isinstance(value, str):
        return _read_text(value, functions, depth)
    if isinstance(value, list):
        return [read_at(f"[{n}]", one, functions, depth) for n, one in enumerate(value)]
    if isinstance(value, dict):
        if isinstance(value.get("copy"), list):
            raise Wrong("copy is not supported: write out what it would repeat")
        return {key: read_at(str(key)[:60], value[key], functions, depth) for key in value}
    return _plain(value)


def read_at(place: str, value: object, functions: Functions, depth: int = 0) -> Node:
    """The same of a part of something, whose place a refusal then names."""
    with at(place):
        return read(value, functions, depth + 1)


def _read_text(text: str, functions: Functions, depth: int) -> Node:
    if text.startswith("[["):
        return text[1:]
    if not (text.startswith("[") and text.endswith("]")):
        return text
    if len(text) > EXPRESSION_CHARACTERS:
        raise Wrong(f"an expression may have {EXPRESSION_CHARACTERS} characters, not {len(text)}")
    return _Reader(text[1:-1].rstrip(), functions).whole(depth)


_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*+')|(?P<number>-?[0-9]{1,19}(?!\w))"
    r"|(?P<name>[^\W\d]\w*)|(?P<mark>[()\[\],.]))"
)


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Kind, text and position; the kind of a mark is the mark itself."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise Wrong(
                f"the expression cannot be read from its character {position + 2} on; texts stand "
                "in single quotes, and a quote within them is doubled"
            )
        kind = match.lastgroup
        yield match[kind] if kind == "mark" else kind, match[kind], match.start(kind)
        position = match.end()
    yield "end", "", len(text)


class _Reader:
    """Reads one expression, from left to right."""

    def __init__(self, text: str, functions: Functions) -> None:
        self._tokens = _tokens(text)
        self._functions = functions
        self._kind, self._text, self._position = next(self._tokens)

    def whole(self, depth: int) -> Node:
        node = self._expression(depth)
        self._take("end", "the end of the expression")
        return node

    def _take(self, kind: str, expected: str) -> str:
        if kind != self._kind:
            raise Wrong(f"the expression needs {expected} at its character {self._position + 2}")
        text = self._text
        if kind != "end":
            self._kind, self._text, self._position = next(self._tokens)
        return text

    def _expression(self, depth: int) -> Node:
        if depth > DEPTH:
            raise _too_deep()
        if self._kind == "text":
            return self._take("text", "")[1:-1].replace("''", "'")
        if self._kind == "number":
            return _plain(int(self._take("number", "")))
        name = self._take("name", "a function, a text in single quotes or a whole number")
        function = self._functions.get(name.lower())
        if self._kind == ".":
            raise Wrong(f"user functions are not supported: {shown(name)} may not have a dot")
        if function is None:
            known = ", ".join(sorted(self._functions))
            raise Wrong(f"the function {shown(name)} is not supported; supported are {known}")
        return function.count(Call(name, self._arguments(depth), self._path(depth)))

    def _arguments(self, depth: int) -> tuple[Node, ...]:
        self._take("(", "a '('")
        found: list[Node] = []
        while self._kind != ")":
            if found:
                self._take(",", "a ',' or a ')'")
            found.append(self._expression(depth + 1))
        self._take(")", "a ')'")
        return tuple(found)

    def _path(self, depth: int) -> tuple[Node, ...]:
        found: list[Node] = []
        while self._kind in {".", "["}:
            if self._kind == ".":
                self._take(".", "")
                found.append(self._take("name", "the name of a property"))
            else:
                self._take("[", "")
                found.append(self._expression(depth + 1))
                self._take("]", "a ']'")
        return tuple(found)


# --- Evaluating ---------------------------------------------------------------------------------


class Evaluation:
    """Works out what has been read, within bounds on how deep it goes and how much it makes."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._depth = 0
        self._left = WORK

    def value(self, node: Node) -> Value:
        """What the node stands for; it may share parts with what the functions gave."""
        self._depth += 1
        try:
            if self._depth > DEPTH:
                raise _too_deep()
            if isinstance(node, Call):
                return self._call(node)
            if isinstance(node, list):
                return [self._part(f"[{number}]", one) for number, one in enumerate(node)]
            if isinstance(node, dict):
                return {key: self._part(str(key)[:60], node[key]) for key in node}
            return node
        finally:
            self._depth -= 1

    def copied(self, value: Value, depth: int = 1) -> Value:
        """A copy that shares nothing with the value, which must be small enough to be made."""
        self._left -= 1 + (len(value) // _CHARACTERS_OF_A_VALUE if isinstance(value, str) else 0)
        if self._left < 0:
            raise Wrong(f"the expressions make more than {WORK} values: repeat less in variables")
        if depth > DEPTH:
            raise _too_deep()
        if isinstance(value, list | tuple):
            return [self.copied(one, depth + 1) for one in value]
        if isinstance(value, Mapping):
            return {self.copied(key): self.copied(value[key], depth + 1) for key in value}
        return _plain(value)

    def _part(self, place: str, node: Node) -> Value:
        with at(place):
            return self.value(node)

    def _call(self, call: Call) -> Value:
        if call.name.lower() == "if":
            found = self._chosen(call)
        else:
            arguments = [self.value(one) for one in call.arguments]
            found = self.copied(self._made(call, arguments))
        for step in call.path:
            found = self._member(call, found, step)
        return found

    def _made(self, call: Call, arguments: list[Value]) -> Value:
        try:
            return self._functions[call.name.lower()].given(arguments)
        except Wrong as wrong:
            if wrong.whole:  # in a variable, say: it has its own place
                raise
            raise Wrong(f"{call} {wrong.what}") from None

    def _chosen(self, call: Call) -> Value:
        """What if() gives; the other branch may well ask for a resource that is left out."""
        condition = self.value(call.arguments[0])
        return self.value(self._made(call, [condition, *call.arguments[1:]]))

    def _member(self, call: Call, value: Value, step: Node) -> Value:
        key = self.value(step)
        if isinstance(value, dict) and isinstance(key, str):
            if key in value:
                return value[key]
            for name in value:  # Azure does not mind the case
                if name.lower() == key.lower():
                    return value[name]
        elif isinstance(value, list) and kind_of(key) == "int" and 0 <= key < len(value):
            return value[key]
        part = kind_of(key) if isinstance(step, Call) else shown(step)
        raise Wrong(f"{call} leads to a value of kind {kind_of(value)}, which has no {part} in it")


# --- Functions ----------------------------------------------------------------------------------


def _concat(*parts: Value) -> Value:
    if all(isinstance(one, list) for one in parts):
        return [one for part in parts for one in part]
    if any(isinstance(one, list) for one in parts):
        raise Wrong("takes only arrays or no array at all")
    return "".join(map(text_of, parts))


def _format(pattern: str, *values: Value) -> str:
    """The pattern with {0}, {1}... filled in; {{ and }} are braces."""
    pieces: list[str] = []
    written = 0
    for piece in re.findall(r"\{\{|\}\}|\{[0-9]{1,3}\}|[{}]|[^{}]+", pattern):
        if piece in {"{", "}"}:
            raise Wrong("fills in {0}, {1} and so on; a brace itself is doubled")
        pieces.append(_filled(piece, values))
        written += len(pieces[-1])
        if written > TEXT_CHARACTERS:
            raise Wrong(f"may not write more than {TEXT_CHARACTERS} characters")
    return "".join(pieces)


def _filled(piece: str, values: tuple[Value, ...]) -> str:
    if piece[0] not in "{}":
        return piece
    if piece in {"{{", "}}"}:
        return piece[0]
    number = int(piece[1:-1])
    if number >= len(values):
        raise Wrong(f"has no value for {piece}; the first value is {{0}}")
    return text_of(values[number])


def _int(value: Value) -> int:
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,19}", value):
        raise Wrong("takes a string only if it is a whole number, such as '4'")
    return int(value)


def _bool(value: Value) -> bool:
    word = value.lower() if isinstance(value, str) else str(bool(value)).lower()
    if word not in {"true", "false"}:
        raise Wrong("takes a string only if it is 'true' or 'false'")
    return word == "true"


def _unique(*texts: str) -> str:
    digest = sha256("\0".join(texts).encode(errors="surrogatepass")).digest()
    return b32encode(digest).decode().lower()[:13]


def _split(text: str, delimiters: Value) -> list[str]:
    some = [delimiters] if isinstance(delimiters, str) else delimiters
    if not all(isinstance(one, str) for one in some):
        raise Wrong("takes strings as delimiters")
    if len(text) * sum(map(len, some)) > TEXT_CHARACTERS:  # each is tried everywhere
        raise Wrong("has too long a text or too many delimiters")
    pattern = "|".join(re.escape(one) for one in some if one)
    return re.split(pattern, text) if pattern else [text]


def _end(index: int) -> Callable[[Value], Value]:
    """The first or last element, or character; of an empty array it is null."""

    def take(value: Value) -> Value:
        return value[index] if value else ("" if isinstance(value, str) else None)

    return take


_SCALAR = "string or int or bool"

FUNCTIONS: Functions = {
    "and": Function(lambda *flags: all(flags), ("bool",), 2, MANY),
    "bool": Function(_bool, (_SCALAR,)),
    "concat": Function(_concat, (f"{_SCALAR} or array",), 1, MANY),
    "createarray": Function(lambda *values: list(values), ("any",), 0, MANY),
    "empty": Function(lambda value: not value, ("string or array or object or null",)),
    "equals": Function(lambda one, other: canonical(one) == canonical(other), ("any", "any")),
    "false": Function(lambda: False),
    "first": Function(_end(0), ("string or array",)),
    "format": Function(_format, ("string", "any"), 1, MANY),
    "if": Function(lambda flag, one, other: one if flag else other, ("bool", "any", "any")),
    "int": Function(_int, ("string or int",)),
    "last": Function(_end(-1), ("string or array",)),
    "length": Function(len, ("string or array or object",)),
    "not": Function(lambda flag: not flag, ("bool",)),
    "null": Function(lambda: None),
    "or": Function(lambda *flags: any(flags), ("bool",), 2, MANY),
    "split": Function(_split, ("string", "string or array")),
    "string": Function(text_of, ("any",)),
    "tolower": Function(str.lower, ("string",)),
    "toupper": Function(str.upper, ("string",)),
    "true": Function(lambda: True),
    "uniquestring": Function(_unique, ("string",), 1, MANY),
}
