"""The files of a release, and what each of them contains or requires."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from packaging.requirements import Requirement

from deploy.agent.contents import version
from deploy.dependencies.requirements import BUILD, extras, groups
from deploy.dist.container import base_image

_BUILD = [Requirement(name) for name in BUILD]


@dataclass(frozen=True)
class Artifact:
    """A file of a release. Its requirements are direct ones; an SBOM adds theirs."""

    file: str
    name: str
    description: str
    type: str = "application"
    purl_type: str = "generic"
    contained: list[Requirement] = field(default_factory=list)
    """Copied into it, without what they require."""
    required: list[Requirement] = field(default_factory=list)
    """It does not work without them."""
    optional: Mapping[str, list[Requirement]] = field(default_factory=dict)
    """Extras, by name."""
    build: list[Requirement] = field(default_factory=list)
    """Needed to build or install it only."""
    base_image: tuple[str, str] | None = None


def artifacts() -> dict[str, Artifact]:
    """Return the files of a release by their kind, without SBOMs and checksums."""
    return {**_python_packages(), **_agents(), "container": _container(), "site": _site()}


def _python_packages() -> dict[str, Artifact]:
    name, number = "fairwarning", version()
    wheel = Artifact(
        *(f"{name}-{number}-py3-none-any.whl", name, "Fairwarning as a Python package"),
        purl_type="pypi",
        optional=extras(),
    )
    described = "The sources of Fairwarning"
    source = f"{name}-{number}.tar.gz"
    sdist = replace(wheel, file=source, description=described, build=_BUILD)
    return {"wheel": wheel, "sdist": sdist}


def _agents() -> dict[str, Artifact]:
    name = "fairwarning-agent"
    tomli = extras()[""]
    package = f"{name}_{version()}_all.deb"  # without `~`, which download pages replace
    return {
        "pyz": Artifact(f"{name}.pyz", name, "The agent as one file", contained=tomli),
        "deb": Artifact(package, name, "The agent as a Debian package", contained=tomli),
    }


def _container() -> Artifact:
    name = "fairwarning-container"
    return Artifact(
        *(f"{name}-{version()}.tar.gz", name, "What the container image is built from"),
        type="container",
        required=[*extras()["server"], *extras()["postgres"]],
        build=_BUILD,
        base_image=base_image(),
    )


def _site() -> Artifact:
    name = "fairwarning-docs"
    return Artifact(
        *(f"{name}-{version()}.tar.gz", name, "The documentation site"),
        type="data",
        contained=groups()["docs"],  # the scripts and styles of its pages
        build=groups()["docs"],
    )
