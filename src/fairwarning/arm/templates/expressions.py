"""The language inside templates: what `[concat('vm', parameters('suffix'))]` stands for."""

import re
from collections.abc import Iterator, Mapping

from fairwarning.arm.templates.functions import EXPRESSION_CHARACTERS, FunctionCall, Functions, Node
from fairwarning.arm.templates.values import (
    DEPTH,
    TemplateError,
    Value,
    at,
    kind_of,
    plain,
    shown,
    too_deep,
)

WORK = 200_000  # values that one evaluation may make: about a second's work
_CHARACTERS_OF_A_VALUE = 64  # a text of this length is as much work as a value


# --- Reading ------------------------------------------------------------------------------------


def read(value: object, functions: Functions, depth: int = 1) -> Node:
    """The value with every expression in it read; names of properties are never expressions."""
    if depth > DEPTH:
        raise too_deep()
    if isinstance(value, str):
        return _read_text(value, functions, depth)
    if isinstance(value, list):
        return [read_at(f"[{n}]", one, functions, depth) for n, one in enumerate(value)]
    if isinstance(value, dict):
        if isinstance(value.get("copy"), list):
            raise TemplateError("copy is not supported: write out what it would repeat")
        return {key: read_at(str(key)[:60], value[key], functions, depth) for key in value}
    return plain(value)


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
        raise TemplateError(
            f"an expression may have {EXPRESSION_CHARACTERS} characters, not {len(text)}"
        )
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
            raise TemplateError(
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
            raise TemplateError(
                f"the expression needs {expected} at its character {self._position + 2}"
            )
        text = self._text
        if kind != "end":
            self._kind, self._text, self._position = next(self._tokens)
        return text

    def _expression(self, depth: int) -> Node:
        if depth > DEPTH:
            raise too_deep()
        if self._kind == "text":
            return self._take("text", "")[1:-1].replace("''", "'")
        if self._kind == "number":
            return plain(int(self._take("number", "")))
        name = self._take("name", "a function, a text in single quotes or a whole number")
        function = self._functions.get(name.lower())
        if self._kind == ".":
            raise TemplateError(
                f"user functions are not supported: {shown(name)} may not have a dot"
            )
        if function is None:
            known = ", ".join(sorted(self._functions))
            raise TemplateError(
                f"the function {shown(name)} is not supported; supported are {known}"
            )
        return function.count(FunctionCall(name, self._arguments(depth), self._path(depth)))

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
                raise too_deep()
            if isinstance(node, FunctionCall):
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
            raise TemplateError(
                f"the expressions make more than {WORK} values: repeat less in variables"
            )
        if depth > DEPTH:
            raise too_deep()
        if isinstance(value, list | tuple):
            return [self.copied(one, depth + 1) for one in value]
        if isinstance(value, Mapping):
            return {self.copied(key): self.copied(value[key], depth + 1) for key in value}
        return plain(value)

    def _part(self, place: str, node: Node) -> Value:
        with at(place):
            return self.value(node)

    def _call(self, call: FunctionCall) -> Value:
        if call.name.lower() == "if":
            found = self._chosen(call)
        else:
            arguments = [self.value(one) for one in call.arguments]
            found = self.copied(self._made(call, arguments))
        for step in call.path:
            found = self._member(call, found, step)
        return found

    def _made(self, call: FunctionCall, arguments: list[Value]) -> Value:
        try:
            return self._functions[call.name.lower()].given(arguments)
        except TemplateError as wrong:
            if wrong.whole:  # in a variable, say: it has its own place
                raise
            raise TemplateError(f"{call} {wrong.what}") from None

    def _chosen(self, call: FunctionCall) -> Value:
        """What if() gives; the other branch may well ask for a resource that is left out."""
        condition = self.value(call.arguments[0])
        return self.value(self._made(call, [condition, *call.arguments[1:]]))

    def _member(self, call: FunctionCall, value: Value, step: Node) -> Value:
        key = self.value(step)
        if isinstance(value, dict) and isinstance(key, str):
            if key in value:
                return value[key]
            for name in value:  # Azure does not mind the case
                if name.lower() == key.lower():
                    return value[name]
        elif isinstance(value, list) and kind_of(key) == "int" and 0 <= key < len(value):
            return value[key]
        part = kind_of(key) if isinstance(step, FunctionCall) else shown(step)
        raise TemplateError(
            f"{call} leads to a value of kind {kind_of(value)}, which has no {part} in it"
        )
