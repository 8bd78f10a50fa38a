"""The files that the agent consists of: its modules, tomli, and the metadata with its version.

tomli is read from this environment, where constraints.txt pins it: its compiled wheels contain the
same sources as the pure one.
"""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SOURCE = ROOT / "src"
_PROGRAM = "fairwarning.cli.main"


@cache
def version() -> str:
    """Return the version of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def agent_files() -> dict[str, bytes]:
    """Return the files below a directory of `sys.path`, by path."""
    name = f"fairwarning-{version()}.dist-info/METADATA"
    metadata = f"Metadata-Version: 2.1\nName: fairwarning\nVersion: {version()}\n"
    return {
        **{path.relative_to(_SOURCE).as_posix(): path.read_bytes() for path in _modules()},
        **_tomli_files(".py"),
        name: metadata.encode(),
    }


def license_files() -> dict[str, bytes]:
    """Return the licences of these files, by path."""
    ours = f"fairwarning-{version()}.dist-info/licenses/LICENSE"
    return {ours: (ROOT / "LICENSE").read_bytes(), **_tomli_files("LICENSE")}


def _tomli_files(suffix: str) -> dict[str, bytes]:
    files = distribution("tomli").files or ()
    return {
        path.as_posix(): Path(str(path.locate())).read_bytes()
        for path in files
        if path.name.endswith(suffix)
    }


# --- Modules --------------------------------------------------------------------------------------


def _modules() -> set[Path]:
    """Return the files of the program, of the whole guest side, and of all that they import."""
    guest = (_SOURCE / "fairwarning" / "guest").rglob("*.py")
    waiting, files = {_file(_PROGRAM), *guest}, set[Path]()
    while waiting:
        path = waiting.pop()
        if path is not None and path not in files:
            files.add(path)
            waiting |= {_file(name) for name in _imported(path)}
    return files


def _file(name: str) -> Path | None:
    """Return the file of a module of ours; None if there is no such module."""
    path = _SOURCE.joinpath(*name.split("."))
    files = (path / "__init__.py", path.with_suffix(".py"))
    return next((file for file in files if file.is_file()), None)


def _imported(path: Path) -> Iterator[str]:
    """Yield the dotted names that a file may import, and the packages that contain them."""
    names = [".".join(path.relative_to(_SOURCE).parent.parts)]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    for name in names:
        words = name.split(".")
        yield from (".".join(words[:count]) for count in range(1, len(words) + 1))
