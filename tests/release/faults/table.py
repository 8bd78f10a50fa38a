"""The fault table: where the shell waits, writes, spawns or reads foreign bytes, and what follows.

A place is a module and a kind of call: `store/worker.py waits`. A call is known by its full name
where the module imports it (`os.fsync`), and by the name of the method otherwise (`.sendall`).
"""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("rows.toml")


@dataclass(frozen=True)
class FaultRow:
    """Places that fail alike."""

    places: list[str]  # a module and a kind of call each
    what: str
    once: str
    for_ever: str
    notices: str
    test: str  # file::function


@cache
def rows() -> list[FaultRow]:
    """All rows, in the order of the file."""
    return [FaultRow(**row) for row in tomllib.loads(FILE.read_text("utf-8"))["row"]]


@cache
def own_calls() -> frozenset[str]:
    """Places that only call our own classes."""
    return frozenset(tomllib.loads(FILE.read_text("utf-8"))["own"])


SOURCE = Path(__file__).parents[3] / "src" / "fairwarning"

CALLS = tomllib.loads(Path(__file__).with_name("calls.toml").read_text("utf-8"))
KINDS_BY_NAME = {name: kind for kind, names in CALLS["imported"].items() for name in names.split()}
KINDS_BY_METHOD = {name: kind for kind, names in CALLS["methods"].items() for name in names.split()}


@cache
def places() -> set[str]:
    """Every place of the package outside the core, which does none of this."""
    modules = (path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
    return {
        f"{module} {kind}"
        for module in modules
        if not module.startswith("core/")
        for kind in kinds((SOURCE / module).read_text("utf-8"), parses=module in CALLS["parsers"])
    }


def kinds(source: str, *, parses: bool = False) -> Iterator[str]:
    """The kind of each such call in this source."""
    nodes = list(ast.walk(ast.parse(source)))
    names = dict(pair for node in nodes for pair in _imported(node))
    for node in nodes:
        if isinstance(node, ast.Call) and (kind := _kind(node, names, parses=parses)):
            yield kind


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _kind(call: ast.Call, names: dict[str, str], *, parses: bool) -> str | None:
    function, path = call.func, list[str]()
    while isinstance(function, ast.Attribute):
        path.insert(0, function.attr)
        function = function.value
    if isinstance(function, ast.Name) and (function.id in names or not path):
        name = ".".join([names.get(function.id, function.id), *path])
        if name == "int" and parses:
            return "foreign bytes"
        return _mode(call.args[1:]) if name == "open" else KINDS_BY_NAME.get(name)
    return _of_method(path[-1], call) if path else None


def _of_method(method: str, call: ast.Call) -> str | None:
    """By the method; of a method that other types have too, by its arguments."""
    limited = any(keyword.arg == "timeout" for keyword in call.keywords)
    match method, len(call.args):
        case ("get" | "join", 0):  # of a queue, a thread; those of a mapping and a text have one
            return "waits"
        case ("get" | "join" | "result", _) if limited:
            return "waits"
        case "result", 1:
            return "waits"
        case "replace", 1 if not call.keywords:  # of a path; that of a text has two
            return "writes"
        case "open", _:
            return _mode(call.args)
    return KINDS_BY_METHOD.get(method)


def _mode(arguments: list[ast.expr]) -> str | None:
    """Whether a file is opened for writing."""
    modes = (mode.value for mode in arguments if isinstance(mode, ast.Constant))
    writing = any(isinstance(mode, str) and set(mode) & set("wax+") for mode in modes)
    return "writes" if writing else None
