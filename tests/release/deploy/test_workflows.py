"""The workflows of the repository: pinned, with least permissions, and in step with the project.

`make check` validates their syntax and audits them; these tests compare them with other files.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.fixtures.programs import ROOT
from tests.release.deploy.files import lint
from tests.release.deploy.test_together import STYLE

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

PERMISSIONS = {  # that may change something; every other job can only read the repository
    ("documentation", "publish"): {"id-token", "pages"},
    ("release", "attest"): {"artifact-metadata", "attestations", "id-token"},
    ("release", "pypi"): {"id-token"},
    ("release", "page"): {"contents"},
}


def read(path: Path) -> Any:  # noqa: ANN401  (YAML)
    """Parse a YAML file; in YAML 1.2, `on` is a word."""
    return YAML(typ="safe").load(path)


JOBS = [(path.stem, name, job) for path in WORKFLOWS for name, job in read(path)["jobs"].items()]


def supported(versions: str) -> set[str]:
    """Return the Python versions of a text."""
    return set(re.findall(r"\b3\.\d+\b", versions))


# --- Safety ---------------------------------------------------------------------------------------


def test_jobs_have_the_fewest_permissions() -> None:
    """Only jobs that publish may write, each to one place."""
    writing = {}
    for workflow, name, job in JOBS:
        permissions = dict(job["permissions"])
        if rights := {key for key, right in permissions.items() if right == "write"}:
            writing[workflow, name] = rights
        assert permissions == {"contents": "read"} or set(permissions) == rights
    assert writing == PERMISSIONS


# --- In step with the project ---------------------------------------------------------------------


def test_supported_versions_of_python_are_tested() -> None:
    """Those of the metadata: from 3.11 on everything, before that the agent."""
    classifiers = supported(" ".join(PYPROJECT["project"]["classifiers"]))
    (linux,) = [job for _, name, job in JOBS if name == "linux"]
    matrix = set(linux["strategy"]["matrix"]["python"])
    (setup,) = [step for step in linux["steps"] if "setup-python" in step.get("uses", "")]
    assert matrix | supported(setup["with"]["python-version"]) == classifiers
    assert matrix == {version for version in classifiers if int(version[2:]) >= 11}
    oldest = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    assert min(classifiers, key=lambda version: int(version[2:])) == oldest


def test_nothing_is_published_before_it_is_tested() -> None:
    """Each job of a release that publishes waits for the tests and for the second build."""
    needs = {}
    for workflow, name, job in JOBS:
        if workflow == "release":
            needed = job.get("needs", [])
            needs[name] = {needed} if isinstance(needed, str) else set(needed)
    assert needs["attest"] == {"test", "rebuild"}
    assert needs["rebuild"] == {"build"}
    assert needs["pypi"] == {"attest"}
    assert needs["page"] == {"pypi"}


def test_the_yaml_is_formatted() -> None:
    """As the files in deploy/; `on` is the name of a key."""
    style = STYLE.replace("rules: {", "rules: {truthy: {check-keys: false}, ")
    lint("yamllint", "--strict", "--config-data", style, *sorted(GITHUB.rglob("*.yml")))
