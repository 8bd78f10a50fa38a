"""Names in the package: one meaning per class name; and what no module may have."""

import ast
import pkgutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

import fairwarning

ROOT = Path(__file__).parents[1] / "src" / "fairwarning"

# The guest side must not import the core's model, so it has its own types for the document.
GUEST_TYPES = {"Event", "EventStatus", "EventType"}


def test_a_public_class_name_has_one_meaning() -> None:
    """Two classes of the same name make every reader look twice."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(path.relative_to(ROOT).as_posix())
    twice = {name: paths for name, paths in files.items() if len(paths) > 1}
    assert {name for name in twice if name not in GUEST_TYPES} == set()
    assert all("guest/events.py" in paths and len(paths) == 2 for paths in twice.values())


def _modules() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(fairwarning.__path__, "fairwarning."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # of an extra that is not installed
                yield import_module(module.name)


def test_no_module_keeps_an_exception() -> None:
    """One that is raised again keeps the frames of each time, with all that they refer to."""
    kept = []
    for module in _modules():
        for name, value in vars(module).items():
            values = value.values() if isinstance(value, dict) else (value,)
            if any(isinstance(held, BaseException) for held in values):
                kept.append(f"{module.__name__}.{name}")
    assert kept == []
