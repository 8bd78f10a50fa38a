"""The public Python names with their signatures, as an outline.

Annotations are printed as the source has them, so that they are the same on every version of Python
and with every set of installed packages.
"""

import ast
import inspect
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from types import FunctionType, ModuleType

from tests.release.promises.outline import REQUIRED, Outline

_HOOKS_MODULE = "fairwarning.guest.agent.kubernetes"  # the agent's file names its functions
_HOOKS = ["drain", "mark", "uncordon"]
_SHOWN_METHODS = {"__init__", "__enter__", "__aenter__"}  # of those that Python defines
_HANDLES = {"MachineHandle", "OperationHandle", "RolloutHandle", "ScaleSetHandle"}
"""A Cloud makes these; nobody else calls their constructors."""
_NOT_PROMISED = {"state"}  # of a handle: the engine's own record

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_api() -> Outline:
    """Return the outline of all public modules."""
    return {
        "fairwarning": _members("fairwarning"),
        "fairwarning.testing": _members("fairwarning.testing"),
        _HOOKS_MODULE: _members(_HOOKS_MODULE, _HOOKS),
    }


def _members(name: str, names: list[str] | None = None) -> Outline:
    module = import_module(name)
    values = [getattr(module, member) for member in names or sorted(module.__all__)]
    return dict(_class(value) if isinstance(value, type) else _function(value) for value in values)


def _function(value: FunctionType) -> tuple[str, Outline]:
    module = import_module(value.__module__)
    (node,) = (n for n in _body(module) if isinstance(n, Function) and n.name == value.__name__)
    return f"{node.name}()", _signature(node, module)


# --- Classes --------------------------------------------------------------------------------------


def _class(value: type) -> tuple[str, Outline]:
    """Return the public members, inherited ones of our own classes included."""
    members: Outline = {}
    for owner in reversed(value.__mro__):
        # StrEnum is our copy of a class that newer versions of Python have.
        if owner.__module__.startswith("fairwarning.") and owner.__name__ != "StrEnum":
            members |= _own_members(owner)
    if value.__name__ in _HANDLES:
        del members["__init__()"]
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    return f"class {value.__name__}" + (f"({bases})" if bases else ""), members


def _own_members(owner: type) -> Outline:
    module = import_module(owner.__module__)
    (body,) = (
        n.body for n in _body(module) if isinstance(n, ast.ClassDef) and n.name == owner.__name__
    )
    members: Outline = {}
    for node in body:
        if isinstance(node, ast.AnnAssign) and _is_promised(ast.unparse(node.target)):
            number = 1 + sum(line[0].isdigit() for line in members)
            members[f"{number}. {ast.unparse(node.target)}: {_field(node)}"] = {}
        elif isinstance(node, ast.Assign) and issubclass(owner, Enum):
            members[ast.unparse(node)] = {}
        elif isinstance(node, Function):
            members |= _method(node, module)
    return members


def _is_promised(name: str) -> bool:
    return name in _SHOWN_METHODS or not (name.startswith("_") or name in _NOT_PROMISED)


def _field(node: ast.AnnAssign) -> str:
    kind = ast.unparse(node.annotation)
    return f"{kind} {REQUIRED}" if node.value is None else f"{kind} = {ast.unparse(node.value)}"


def _method(node: Function, module: ModuleType) -> Outline:
    if not _is_promised(node.name):
        return {}
    if any(ast.unparse(decorator) == "property" for decorator in node.decorator_list):
        return {f"{node.name}: {_annotation(node.returns)}": {}}
    outline: Outline = {}
    if node.name == "__init__":
        outline |= {f"{name}: attribute": {} for name in _attributes(node)}
    awaited = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return outline | {f"{awaited}{node.name}()": _signature(node, module)}


def _attributes(init: Function) -> Iterator[str]:
    """Yield the public attributes that a constructor sets."""
    for node in ast.walk(init):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Attribute) and _is_promised(target.attr):
            yield target.attr


# --- Functions ------------------------------------------------------------------------------------


def _signature(node: Function, module: ModuleType) -> Outline:
    return dict.fromkeys(_signature_lines(node.args, node.returns, module), Outline())


def _signature_lines(
    parameters: ast.arguments, returns: ast.expr | None, module: ModuleType
) -> Iterator[str]:
    positional = [*parameters.posonlyargs, *parameters.args]
    without_default = len(positional) - len(parameters.defaults)
    defaults = [*[None] * without_default, *parameters.defaults]
    pairs = [pair for pair in zip(positional, defaults, strict=True) if pair[0].arg != "self"]
    for number, (parameter, default) in enumerate(pairs, 1):
        yield f"{number}. {_parameter(parameter, default, module)}"
    if parameters.vararg:
        yield f"*{ast.unparse(parameters.vararg)}"
    named = zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
    for parameter, default in sorted(named, key=lambda pair: pair[0].arg):
        yield _parameter(parameter, default, module)
    if parameters.kwarg:
        yield f"**{ast.unparse(parameters.kwarg)}"
    if _annotation(returns) != "None":
        yield f"returns: {_annotation(returns)}"


def _parameter(parameter: ast.arg, default: ast.expr | None, module: ModuleType) -> str:
    if default is None:
        return f"{ast.unparse(parameter)} {REQUIRED}"
    value = eval(ast.unparse(default), vars(module))
    return f"{ast.unparse(parameter)} = {value!r}"


def _annotation(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)


def _body(module: ModuleType) -> list[ast.stmt]:
    return ast.parse(inspect.getsource(module)).body
