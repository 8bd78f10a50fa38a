"""Names in the package: one meaning per class name."""

import ast
from collections import defaultdict
from pathlib import Path

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
