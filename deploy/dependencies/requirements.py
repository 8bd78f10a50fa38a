"""What the parts of the project require, directly and through other packages.

Markers are evaluated for the systems and Pythons that the service supports, not for the system that
builds, so that the answer is the same everywhere.
"""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import product
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from deploy.dependencies.packages import ROOT, Package

BUILD = ("pip", "hatchling", "editables")
"""What installs the project from its sources; editables makes the installation of a checkout."""
UNPINNED_GROUPS = ("az", "ansible", "custodian", "libcloud")
"""Tools of Azure for tests, each in an environment with its own versions."""

_PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_SYSTEMS = {"linux": ("Linux", ("x86_64", "aarch64")), "darwin": ("Darwin", ("arm64",))}
_ENVIRONMENTS = [
    {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": name,
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": system,
    }
    for python, (system, (name, machines)) in product(_PYTHONS, _SYSTEMS.items())
    for machine in machines
]


def extras() -> dict[str, list[Requirement]]:
    """Return the requirements of each extra; those of the bare install have an empty name."""
    project = _pyproject()["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}
    return {name: [Requirement(text) for text in texts] for name, texts in lists.items()}


def groups() -> dict[str, list[Requirement]]:
    """Return the requirements of each dependency group that constraints.txt pins."""
    lists = _pyproject()["dependency-groups"]
    return {
        name: [Requirement(text) for text in lists[name] if isinstance(text, str)]
        for name in lists
        if name not in UNPINNED_GROUPS
    }


def dependency_graph(
    direct: Iterable[Requirement], packages: Mapping[NormalizedName, Package]
) -> dict[NormalizedName, set[NormalizedName]]:
    """Return the required packages, each with those that it requires itself.

    The direct ones count whatever their markers: one of them is for an older Python.
    """
    graph: dict[NormalizedName, set[NormalizedName]] = {}
    waiting, visited = [*direct], set[tuple[NormalizedName, frozenset[str]]]()
    while waiting:
        requirement = waiting.pop()
        name, chosen = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, chosen) not in visited:
            visited.add((name, chosen))
            following = applicable(packages[name], chosen)
            graph.setdefault(name, set()).update(canonicalize_name(r.name) for r in following)
            waiting += following
    return graph


def applicable(package: Package, chosen: frozenset[str] = frozenset()) -> list[Requirement]:
    """Return the requirements of a package, with these extras, on any supported system."""
    requirements = [Requirement(text) for text in package.requires]
    return [r for r in requirements if r.marker is None or _applies(r.marker, chosen)]


def _applies(marker: Marker, chosen: frozenset[str]) -> bool:
    return any(
        marker.evaluate({**environment, "extra": extra})
        for environment in _ENVIRONMENTS
        for extra in ("", *chosen)
    )


@cache
def _pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
