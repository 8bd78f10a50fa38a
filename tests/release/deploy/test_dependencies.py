"""Dependencies: pinned, described, under licenses that go together with ours, and not too young."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from packaging.licenses import canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.dependencies.__main__ import young
from deploy.dependencies.licenses import PERMISSIVE, TOOLS, WEAK_COPYLEFT, allowed, spdx
from deploy.dependencies.package_index import concerning, installed_metadata, requirements
from deploy.dependencies.packages import Package, packages, pins
from deploy.dependencies.requirements import BUILD, dependency_graph, extras, groups
from deploy.dist.artifacts import artifacts

PACKAGES = packages()
RENEW = "renew packages.json with `.venv/bin/python -m deploy.dependencies --write`"
CLICK = canonicalize_name("click")
NOW = datetime(2030, 1, 8, tzinfo=UTC)


def unsuitable(direct: Collection[Requirement], licenses: Collection[str]) -> dict[str, str]:
    """Return the licenses of required packages that are not among these, by package."""
    return {
        name: PACKAGES[name].license
        for name in dependency_graph(direct, PACKAGES)
        if not allowed(PACKAGES[name].license, licenses)
    }


# --- Pins -----------------------------------------------------------------------------------------


def test_every_pinned_package_is_described() -> None:
    """At the pinned version."""
    versions = {name: package.version for name, package in PACKAGES.items()}
    assert versions == pins(), RENEW


def test_the_description_is_that_of_the_installed_package() -> None:
    """License and requirements, for each package that is installed here."""
    installed = {
        name: metadata
        for name, version in pins().items()
        if (metadata := installed_metadata(name, version))
    }
    assert len(installed) > 50
    for name, metadata in installed.items():
        package = PACKAGES[name]
        assert package.license == spdx(metadata), RENEW
        declared = replace(package, requires=requirements(metadata))
        assert package.requires == concerning(declared, pins()), RENEW


def test_everything_that_is_required_is_pinned_and_nothing_else() -> None:
    """By an extra, a dependency group, or the build."""
    roots = [*extras().values(), *groups().values(), [Requirement(name) for name in BUILD]]
    required = {name for root in roots for name in dependency_graph(root, PACKAGES)}
    assert required == pins().keys()


def test_pins_meet_the_requirements() -> None:
    """Of pyproject.toml, and of one another."""
    direct = [r for part in (*extras().values(), *groups().values()) for r in part]
    for requirement in direct:
        version = pins()[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), requirement


# --- Licenses -------------------------------------------------------------------------------------


def test_licenses_are_spdx_expressions() -> None:
    """In the spelling of the SPDX list."""
    for name, package in PACKAGES.items():
        assert package.license == canonicalize_license_expression(package.license), name


@pytest.mark.parametrize("kind", artifacts())
def test_what_a_release_contains_is_permissive(kind: str) -> None:
    """A copy of it may be distributed under Apache-2.0, with its notice."""
    contained = artifacts()[kind].contained
    direct = {canonicalize_name(requirement.name) for requirement in contained}
    assert {n: PACKAGES[n].license for n in direct if PACKAGES[n].license not in PERMISSIVE} == {}


def test_what_users_install_is_permissive_or_weak_copyleft() -> None:
    """No extra brings a license that would extend to our code or to a user's."""
    direct = [requirement for part in extras().values() for requirement in part]
    assert unsuitable(direct, PERMISSIVE | WEAK_COPYLEFT) == {}
    assert "psycopg" in unsuitable(direct, PERMISSIVE)


def test_the_licenses_of_tools_are_known() -> None:
    """Copyleft is allowed for what is only run."""
    direct = [requirement for part in groups().values() for requirement in part]
    assert unsuitable(direct, PERMISSIVE | WEAK_COPYLEFT | TOOLS) == {}
    assert "yamllint" in unsuitable(direct, PERMISSIVE | WEAK_COPYLEFT)


# --- Ages and changes -----------------------------------------------------------------------------


def uploaded(time: datetime) -> Package:
    """Return a package that was uploaded at a time."""
    return Package("1.0", "MIT", time.isoformat(), (), {"click-1.0.tar.gz": "00"})


def test_a_version_that_is_younger_than_a_week_is_reported() -> None:
    """An hour too young, and exactly old enough."""
    early = NOW - timedelta(days=6, hours=23)
    assert list(young({CLICK: uploaded(early)}, NOW)) == [
        "click 1.0 is 167 hours old: pin one that is a week old"
    ]
    assert list(young({CLICK: uploaded(NOW - timedelta(days=7))}, NOW)) == []
