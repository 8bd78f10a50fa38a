"""The packages that Fairwarning requires, with their licenses, and those that build and test it."""

from collections.abc import Mapping, Sequence

from packaging.requirements import Requirement
from packaging.utils import NormalizedName

from deploy.dependencies.packages import packages
from deploy.dependencies.requirements import (
    BUILD,
    UNPINNED_GROUPS,
    dependency_graph,
    extras,
    groups,
)
from tests.docs.chapters.page import code, page, table

_BARE = "the bare install"


def write() -> str:
    """Return the page."""
    runtime = users({name or _BARE: requirements for name, requirements in extras().items()})
    build = {"build": [Requirement(name) for name in BUILD]}
    tools = users({**groups(), **build})
    return page(
        "Dependencies",
        "Every package that an installation of Fairwarning requires, and every tool that builds "
        "and tests it, at the version in `constraints.txt`, with its license as an "
        "[SPDX expression](https://spdx.org/licenses/). No version was younger than a week when it "
        "was chosen; `make audit` verifies that, and looks for known vulnerabilities. Each file of "
        "a release has an SBOM ([Install](../install.md#verify-a-download)).",
        "## Packages that users install",
        "By extra. The bare install, for Python 3.11 and newer, requires nothing. Fairwarning does "
        "not contain these packages, except that `fairwarning-agent.pyz` and the Debian package "
        "contain tomli. Packages under the LGPL or the MPL are installed as they are and can be "
        "replaced.",
        table(["package", "version", "license", "extra", "released"], _rows(runtime)),
        "## Tools for development",
        "By dependency group of `pyproject.toml`, without the packages above. None of them is part "
        "of a release, except that the documentation site contains scripts and styles of Zensical. "
        f"The groups {code(*UNPINNED_GROUPS)} are tools of Azure that tests run in environments of "
        "their own, with the versions that these tools choose.",
        table(
            ["package", "version", "license", "group", "released"],
            _rows({name: parts for name, parts in tools.items() if name not in runtime}),
        ),
    )


def users(parts: Mapping[str, Sequence[Requirement]]) -> dict[NormalizedName, list[str]]:
    """Return the parts that require each package, directly or through others."""
    graphs = {part: dependency_graph(direct, packages()) for part, direct in parts.items()}
    names = sorted({name for graph in graphs.values() for name in graph})
    return {name: [part for part, graph in graphs.items() if name in graph] for name in names}


def _rows(required: Mapping[NormalizedName, list[str]]) -> list[list[str]]:
    return [
        [
            f"[{name}](https://pypi.org/project/{name}/)",
            packages()[name].version,
            packages()[name].license,
            ", ".join(parts),
            packages()[name].uploaded[:10],
        ]
        for name, parts in required.items()
    ]
