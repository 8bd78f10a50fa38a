"""The expression language of templates: `[concat('vm', parameters('suffix'))]`."""

import re
from collections.abc import Iterator, Mapping

from fairwarning.arm.templates.functions import EXPRESSION_CHARACTERS, FunctionCall, Functions, Node
from fairwarning.arm.templates.values import (
    DEPTH,
    TemplateError,
    Value,
    at,
    check_scalar,
    kind_of,
    quote,
    too_deep,
)

MAX_VALUES = 200_000  # values that an evaluation may create: about a second's work
_CHARACTERS_OF_A_VALUE = 64  # a string of this length counts as another value


# --- Parsing ------------------------------------------------------------------------------------


def parse(value: object, functions: Functions, depth: int = 1) -> Node:
    """Parse every expression in a value; names of properties are never expressions."""
    if depth > DEPTH:
        raise too_deep()
    if isinstance(value, str):
        return _parse_string(value, functions, depth)
    if isinstance(value, list):
        return [parse_at(f"[{n}]", item, functions, depth) for n, item in enumerate(value)]
    if isinstance(value, dict):
        if isinstance(value.get("copy"), list):
            raise TemplateError("copy is not supported: write out each repetition")
        return {key: parse_at(str(key)[:60], value[key], functions, depth) for key in value}
    return check_scalar(value)


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
        raise TemplateError(
            f"an expression may have {EXPRESSION_CHARACTERS} characters, not {len(text)}"
        )
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
        function = self._functions.get(name.lower())
        if self._kind == ".":
            raise TemplateError(
                f"user functions are not supported: remove the dot after {quote(name)}"
            )
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


# --- Evaluating ---------------------------------------------------------------------------------


class Evaluation:
    """Evaluates parsed values, within limits on depth and on the number of values created."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._depth = 0
        self._left = MAX_VALUES

    def value(self, node: Node) -> Value:
        """Return the value of a node; it may share parts with the results of functions."""
        self._depth += 1
        try:
            if self._depth > DEPTH:
                raise too_deep()
            if isinstance(node, FunctionCall):
                return self._call(node)
            if isinstance(node, list):
                return [self._part(f"[{number}]", item) for number, item in enumerate(node)]
            if isinstance(node, dict):
                return {key: self._part(str(key)[:60], node[key]) for key in node}
            return node
        finally:
            self._depth -= 1

    def copy(self, value: Value, depth: int = 1) -> Value:
        """Return a deep copy of the value; raise if it exceeds the limits."""
        self._left -= 1 + (len(value) // _CHARACTERS_OF_A_VALUE if isinstance(value, str) else 0)
        if self._left < 0:
            raise TemplateError(
                f"the expressions create more than {MAX_VALUES} values: repeat less in variables"
            )
        if depth > DEPTH:
            raise too_deep()
        if isinstance(value, list | tuple):
            return [self.copy(item, depth + 1) for item in value]
        if isinstance(value, Mapping):
            return {self.copy(key): self.copy(value[key], depth + 1) for key in value}
        return check_scalar(value)

    def _part(self, place: str, node: Node) -> Value:
        with at(place):
            return self.value(node)

    def _call(self, call: FunctionCall) -> Value:
        if call.name.lower() == "if":
            result = self._branch(call)
        else:
            arguments = [self.value(argument) for argument in call.arguments]
            result = self.copy(self._invoke(call, arguments))
        for step in call.path:
            result = self._member(call, result, step)
        return result

    def _invoke(self, call: FunctionCall, arguments: list[Value]) -> Value:
        try:
            return self._functions[call.name.lower()].invoke(arguments)
        except TemplateError as error:
            if error.complete:  # the error of a variable or parameter has its own place
                raise
            raise TemplateError(f"{call} {error.problem}") from None

    def _branch(self, call: FunctionCall) -> Value:
        """Evaluate one branch of if(); the other may refer to a resource that is left out."""
        condition = self.value(call.arguments[0])
        return self.value(self._invoke(call, [condition, *call.arguments[1:]]))

    def _member(self, call: FunctionCall, value: Value, step: Node) -> Value:
        key = self.value(step)
        if isinstance(value, dict) and isinstance(key, str):
            if key in value:
                return value[key]
            for name in value:  # property names are case-insensitive, as on Azure
                if name.lower() == key.lower():
                    return value[name]
        elif isinstance(value, list) and kind_of(key) == "int" and 0 <= key < len(value):
            return value[key]
        part = kind_of(key) if isinstance(step, FunctionCall) else quote(step)
        raise TemplateError(
            f"{call} leads to a value of type {kind_of(value)}, which has no member {part}"
        )
