"""The expression language of templates: `[concat('vm', parameters('suffix'))]`."""

import re
from collections.abc import Iterator
from typing import Any

from fairwarning.arm.templates.evaluation import (
    EXPRESSION_CHARACTERS,
    CopyLoop,
    FunctionCall,
    Functions,
    Node,
    find_function,
)
from fairwarning.arm.templates.values import DEPTH, TemplateError, at, check_scalar, quote, too_deep
from fairwarning.arm.turns import pause


def parse(value: object, functions: Functions, depth: int = 1) -> Node:
    """Parse every expression in a value; names of properties are never expressions."""
    if depth > DEPTH:
        raise too_deep()
    pause()
    if isinstance(value, str):
        return _parse_string(value, functions, depth)
    if isinstance(value, list):
        return [
            item
            if isinstance(item, str) and item[:1] != "["  # most of a long list
            else parse_at(f"[{n}]", item, functions, depth)
            for n, item in enumerate(value)
        ]
    if isinstance(value, dict):
        return _parse_object(value, functions, depth)
    return check_scalar(value)


def _parse_object(value: dict[str, Any], functions: Functions, depth: int) -> dict[str, Node]:
    """Parse an object; each element of a list `copy` becomes a property that is repeated."""
    loops = value.get("copy")
    node: dict[str, Node] = {}
    for key, part in value.items():
        if key != "copy" or not isinstance(loops, list):
            node[key] = parse_at(str(key)[:60], part, functions, depth)
            continue
        for number, loop in enumerate(loops):
            with at(f"copy[{number}]"):
                parsed = _copy_loop(loop, functions, depth)
                if parsed.name in value:
                    raise TemplateError(f"the object has another property {quote(parsed.name)}")
                node[parsed.name] = parsed
    return node


def _copy_loop(loop: object, functions: Functions, depth: int) -> CopyLoop:
    if (
        not isinstance(loop, dict)
        or not isinstance(loop.get("name"), str)
        or not {"count", "input"} <= set(loop)
    ):
        raise TemplateError("a copy needs a name, a count and an input")
    count, item = (parse_at(key, loop[key], functions, depth + 1) for key in ("count", "input"))
    return CopyLoop(loop["name"], count, item)


def parse_at(place: str, value: object, functions: Functions, depth: int = 0) -> Node:
    """Parse a part of a value, whose place an error then names."""
    with at(place):
        return parse(value, functions, depth + 1)


def _parse_string(text: str, functions: Functions, depth: int) -> Node:
    if text.startswith("[["):
        return text[1:]
    if not (text.startswith("[") and text.endswith("]")):
        return text
    if len(text) > EXPRESSION_CHARACTERS:
        raise TemplateError(f"an expression may have {EXPRESSION_CHARACTERS} characters")
    return _Parser(text[1:-1].rstrip(), functions).parse(depth)


_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*+')|(?P<number>-?[0-9]{1,19}(?!\w))"
    r"|(?P<name>[^\W\d]\w*)|(?P<mark>[()\[\],.]))"
)


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the kind, text and position of each token; the kind of a mark is the mark itself."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise TemplateError(
                f"the expression cannot be parsed at character {position + 2}; put strings in "
                "single quotes, and double a quote inside a string"
            )
        kind = match.lastgroup
        yield match[kind] if kind == "mark" else kind, match[kind], match.start(kind)
        position = match.end()
    yield "end", "", len(text)


class _Parser:
    """Parses an expression by recursive descent."""

    def __init__(self, text: str, functions: Functions) -> None:
        self._tokens = _tokens(text)
        self._functions = functions
        self._kind, self._text, self._position = next(self._tokens)

    def parse(self, depth: int) -> Node:
        node = self._expression(depth)
        self._take("end", "the end of the expression")
        return node

    def _take(self, kind: str, expected: str) -> str:
        if kind != self._kind:
            raise TemplateError(
                f"the expression needs {expected} at character {self._position + 2}"
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
            return check_scalar(int(self._take("number", "")))
        name = self._take("name", "a function, a string in single quotes or an integer")
        if self._kind == ".":  # a user function
            self._take(".", "")
            name = f"{name}.{self._take('name', 'the name of a user function')}"
        function = find_function(self._functions, name)
        if function is None:
            known = ", ".join(sorted(self._functions))
            raise TemplateError(
                f"the function {quote(name)} is not supported; supported are {known}"
            )
        return function.check_arity(FunctionCall(name, self._arguments(depth), self._path(depth)))

    def _arguments(self, depth: int) -> tuple[Node, ...]:
        self._take("(", "a '('")
        arguments: list[Node] = []
        while self._kind != ")":
            if arguments:
                self._take(",", "a ',' or a ')'")
            arguments.append(self._expression(depth + 1))
        self._take(")", "a ')'")
        return tuple(arguments)

    def _path(self, depth: int) -> tuple[Node, ...]:
        steps: list[Node] = []
        while self._kind in {".", "["}:
            if self._kind == ".":
                self._take(".", "")
                steps.append(self._take("name", "the name of a property"))
            else:
                self._take("[", "")
                steps.append(self._expression(depth + 1))
                self._take("]", "a ']'")
        return tuple(steps)
