"""The mutants of `core`: one place of a module changed, the rest of the source as it is.

None are made where no test should look: in texts, `__repr__`, types, and assertions, which correct
code never fails.
"""

import ast
import hashlib
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from operator import itemgetter
from pathlib import Path

CORE = Path(__file__).parents[2] / "src" / "fairwarning" / "core"
SURVIVORS = Path(__file__).with_name("survivors.toml")
KINDS = "comparison", "constant", "boolean", "statement", "argument"

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_REMOVABLE = ast.AugAssign, ast.Raise, ast.Return, ast.Delete, ast.Continue, ast.Break, ast.Expr
_UNTRIED = {"__repr__", "__str__", "_describe"}
_TYPES = {"annotation", "returns"}
_COMMUTATIVE = {"max", "min"}
_RETURNS_NOTHING = {"return", "return None"}
_TYPE_CALLS = {"TypeVar", "cast", "dataclass_transform"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed place of a module."""

    path: Path
    function: str
    """Where it is: "" at the top of the module."""
    kind: str
    before: str
    after: str
    node: ast.expr | ast.stmt
    """What is replaced."""
    text: str
    """By what."""
    lines: range
    """Of the statement, without its body."""
    at_import: bool
    """Whether an import evaluates the place, or may have made the closure that it is in."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What the mutant is, wherever its line may move."""
        return self.path.name, self.function, self.before, self.after

    def source(self) -> str:
        """Return the changed source of the module, in which no line has another number."""
        source, node = self.path.read_bytes(), self.node
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        lines = source.splitlines(keepends=True)
        begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
        text = self.text.encode() + b"\n" * source[begin:end].count(b"\n")
        if isinstance(node, ast.expr):
            text = b"(" + text + b")"
        return (source[:begin] + text + source[end:]).decode()

    def __str__(self) -> str:
        place = f"{self.path.name}:{self.node.lineno}"
        return f"{place} {self.kind} {self.before} -> {self.after or 'nothing'}"


def choose(count: int, seed: int) -> list[Mutant]:
    """Return random mutants, about as many of each kind.

    Another version of the source has the same ones, except where it differs.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    ranked: dict[str, list[tuple[str, Mutant]]] = {kind: [] for kind in KINDS}
    for mutant in (mutant for path in sorted(CORE.glob("*.py")) for mutant in mutants_of(path)):
        seen[mutant.key] += 1
        text = "\n".join((str(seed), *mutant.key, str(seen[mutant.key])))
        ranked[mutant.kind].append((hashlib.sha256(text.encode()).hexdigest(), mutant))
    each = -(-count // len(KINDS))
    chosen = [sorted(mutants, key=itemgetter(0))[:each] for mutants in ranked.values()]
    return [mutant for _, mutant in sorted(chain(*chosen), key=itemgetter(0))][:count]


def explained_survivors() -> dict[tuple[str, ...], str]:
    """Why some mutants survive, by `Mutant.key`."""
    rows = tomllib.loads(SURVIVORS.read_text("utf-8"))["survivor"]
    columns = "module", "function", "before", "after"
    return {tuple(row[column] for column in columns): row["reason"] for row in rows}


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield all mutants of a module."""
    for place in _places(ast.parse(path.read_bytes()), _Place()):
        for change in _changes(place.node):
            yield Mutant(
                path, place.function, *change, lines=place.lines, at_import=place.at_import
            )


# --- Where ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """A node, and where it is."""

    node: ast.AST = field(default_factory=ast.Pass)
    function: str = ""
    lines: range = range(0)
    at_import: bool = True


def _places(node: ast.AST, where: _Place) -> Iterator[_Place]:
    """Yield all places below a node."""
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if isinstance(node, ast.FunctionDef) and ast.unparse(node.body[-1]) in _RETURNS_NOTHING:
        del node.body[-1]  # without it the function is the same
    for name, part in ast.iter_fields(node):
        enters = is_function and name == "body"  # from a function: into a closure
        inside = replace(where, at_import=where.at_import != enters)
        for child in part if isinstance(part, list) else [part]:
            if isinstance(child, ast.AST) and name not in _TYPES and not _is_untried(child):
                here = _place(child, inside)
                yield here
                yield from _places(child, here)


def _place(node: ast.AST, inside: _Place) -> _Place:
    function, lines = inside.function, inside.lines
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    if isinstance(node, ast.stmt):
        assert node.end_lineno is not None
        body: Sequence[ast.stmt] = getattr(node, "body", ())
        lines = range(node.lineno, body[0].lineno if body else node.end_lineno + 1)
    return _Place(node, function, lines, inside.at_import)


def _is_untried(node: ast.AST) -> bool:
    """Whether a node is a text, a type or an assertion."""
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError"))):
            return True
        case ast.FunctionDef(name=name):
            return name in _UNTRIED
        case ast.Call(func=ast.Name(id=name)):
            return name in _TYPE_CALLS
    return False


# --- What -----------------------------------------------------------------------------------------

_Change = tuple[str, str, str, ast.expr | ast.stmt, str]
"""The kind, before and after for people, what is replaced, and by what."""


def _changes(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Compare():
            yield from _other_comparisons(node)
        case ast.Constant(value=bool(value)):
            yield _expression("constant", node, ast.Constant(not value))
        case ast.Constant(value=int(value) | float(value)):
            yield _expression("constant", node, ast.Constant(value + 1))
        case ast.BoolOp(op=operator, values=values):
            opposite = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield _expression("boolean", node, ast.BoolOp(opposite, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _expression("boolean", node, operand)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Compare | ast.UnaryOp):  # those have mutants of their own
                yield _expression("boolean", test, ast.UnaryOp(ast.Not(), test))
        case ast.Call():
            yield from _other_arguments(node)
        case ast.stmt() if _is_removable(node):
            yield "statement", ast.unparse(node), "", node, "pass"


def _expression(kind: str, node: ast.expr, other: ast.expr) -> _Change:
    text = ast.unparse(other)
    return kind, ast.unparse(node), text, node, text


def _other_comparisons(node: ast.Compare) -> Iterator[_Change]:
    for position, operator in enumerate(node.ops):
        other = deepcopy(node)
        other.ops[position] = _COMPARISONS[type(operator)]()
        yield _expression("comparison", node, other)


def _is_removable(node: ast.stmt) -> bool:
    """Whether the statement defines no name, without which nothing would run."""
    match node:
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
    return isinstance(node, _REMOVABLE)


def _other_arguments(call: ast.Call) -> Iterator[_Change]:
    """Yield a change for each argument removed, and for each two in the wrong order."""
    name = ast.unparse(call.func)
    for keyword in call.keywords:
        if not _is_text(keyword.value):
            other = ast.Call(call.func, call.args, [k for k in call.keywords if k is not keyword])
            before = f"{name}(.., {ast.unparse(keyword)})"
            yield "argument", before, f"{name}(..)", call, ast.unparse(other)
    if call.args and not _is_text(call.args[-1]):
        other = ast.Call(call.func, call.args[:-1], call.keywords)
        before = f"{name}(.., {ast.unparse(call.args[-1])})"
        yield "argument", before, f"{name}(..)", call, ast.unparse(other)
    for position, (left, right) in enumerate(pairwise(call.args)):
        if name not in _COMMUTATIVE and not (
            isinstance(left, ast.Starred) or _is_text(left) or _is_text(right)
        ):
            args = [*call.args[:position], right, left, *call.args[position + 2 :]]
            texts = ast.unparse(left), ast.unparse(right)
            before, after = f"{name}({', '.join(texts)})", f"{name}({', '.join(reversed(texts))})"
            other = ast.Call(call.func, args, call.keywords)
            yield "argument", before, after, call, ast.unparse(other)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
