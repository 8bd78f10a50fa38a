"""The workflows of the repository: pinned, with least permissions, and in step with the project.

`make check` validates their syntax and audits them; these tests compare them with other files.
"""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.docs.chapters import cli
from tests.fixtures.programs import ROOT
from tests.release.deploy.files import DEPLOY, lint
from tests.release.deploy.test_together import STYLE

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")

SELF = "$/.github/workflows/"
PINNED = re.compile(
    r"uses: (?P<action>[\w./-]+)@(?P<commit>[0-9a-f]{40}) # (?P<version>v\d+\.\d+\.\d+)"
)
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
STEPS = [(workflow, step) for workflow, _, job in JOBS for step in job.get("steps", [])]
COMMANDS = [(workflow, step["run"]) for workflow, step in STEPS if "run" in step]


def make_lines() -> Iterator[list[str]]:
    """Yield the words of each make command."""
    for _, script in COMMANDS:
        for line in script.splitlines():
            words = shlex.split(line) if "make " in line else []
            if "make" in words:
                yield words[words.index("make") + 1 :]


def supported(versions: str) -> set[str]:
    """Return the Python versions of a text."""
    return set(re.findall(r"\b3\.\d+\b", versions))


def workflow_name(path: Path) -> str:
    """Return the name of a workflow in a report."""
    return path.stem


# --- Safety ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", WORKFLOWS, ids=workflow_name)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    """A tag can be moved to other code; a commit cannot. The comment says its version."""
    lines = [line.strip().removeprefix("- ") for line in path.read_text("utf-8").splitlines()]
    uses = [line for line in lines if line.startswith("uses:")]
    assert uses
    assert [line for line in uses if not PINNED.fullmatch(line) and SELF not in line] == []


def test_an_action_has_one_version_everywhere() -> None:
    """An update changes all workflows, and one version belongs to one commit."""
    text = "".join(path.read_text("utf-8") for path in WORKFLOWS)
    pins = {match.groups() for match in PINNED.finditer(text)}
    assert len({action for action, _, _ in pins}) == len(pins)


@pytest.mark.parametrize("path", WORKFLOWS, ids=workflow_name)
def test_a_workflow_has_no_permissions_of_its_own(path: Path) -> None:
    """Jobs get what they need. Only one run of a branch takes place at a time."""
    workflow = read(path)
    assert workflow["permissions"] == {}
    assert "github.ref" in workflow["concurrency"]["group"]


def test_jobs_have_the_fewest_permissions() -> None:
    """Only jobs that publish may write, each to one place."""
    writing = {}
    for workflow, name, job in JOBS:
        permissions = dict(job["permissions"])
        if rights := {key for key, right in permissions.items() if right == "write"}:
            writing[workflow, name] = rights
        assert permissions == {"contents": "read"} or set(permissions) == rights
    assert writing == PERMISSIONS


def test_jobs_end() -> None:
    """A job that hangs is stopped long before GitHub's limit of six hours."""
    endless = [name for _, name, job in JOBS if "timeout-minutes" not in job and "uses" not in job]
    assert endless == []
    assert max(job.get("timeout-minutes", 0) for _, _, job in JOBS) <= 180


def test_no_credentials_stay_on_disk() -> None:
    """Later steps run code of a pull request, and find no token in the clone."""
    checkouts = [step for _, step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert [step for step in checkouts if step["with"] != {"persist-credentials": False}] == []


def test_scripts_contain_no_expressions() -> None:
    """A branch may have any name: scripts get such values as variables."""
    assert [script for _, script in COMMANDS if "${{" in script] == []


# --- In step with the project ---------------------------------------------------------------------


def test_make_targets_exist() -> None:
    """Each word after `make` is a target, or a variable that the Makefile uses."""
    targets = set(re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE))
    words = [word for line in make_lines() for word in line]
    assert {"check", "test", "test-all", "docs", "dist"} <= set(words)
    named = {word for word in words if "=" not in word}
    assert named <= targets
    variables = {word.partition("=")[0] for word in words} - named
    assert variables == {"ARGS", "PYTHON"}
    assert all(f"$({variable})" in MAKEFILE for variable in variables)


def test_named_files_exist() -> None:
    """Tests, and lists of tests, by their path from the root."""
    scripts = "\n".join(script for _, script in COMMANDS)
    paths = re.findall(r"(?<![\w/.-])((?:tests|docs|deploy)/[\w/.-]*\w)", scripts)
    assert {"tests/macos.txt", "tests/guest/windows.txt"} <= set(paths)
    assert [path for path in paths if not (ROOT / path).exists()] == []


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


def test_other_systems_run_the_oldest_and_the_newest_python() -> None:
    """The versions between differ less."""
    (linux,) = [job for _, name, job in JOBS if name == "linux"]
    versions = linux["strategy"]["matrix"]["python"]
    for _, name, job in JOBS:
        if name in {"macos", "windows"}:
            assert job["strategy"]["matrix"]["python"] == [versions[0], versions[-1]]


def test_dependencies_of_the_windows_job_are_a_group() -> None:
    """Which the other tests use, too."""
    groups = PYPROJECT["dependency-groups"]
    scripts = "\n".join(script for _, script in COMMANDS)
    assert set(re.findall(r"--group ([\w-]+)", scripts)) == {"guest-test"}
    assert {"include-group": "guest-test"} in groups["test"]


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


@pytest.mark.parametrize("path", FORMS, ids=workflow_name)
def test_forms_name_commands_that_exist(path: Path) -> None:
    """A reporter can run each command that a form asks for."""
    for words in re.findall(r"`fairwarning ([a-z ]+)`", path.read_text("utf-8")):
        assert words in cli.tree()


def test_a_form_names_a_command() -> None:
    """Shows that the test above has something to check."""
    assert any("`fairwarning event explain`" in path.read_text("utf-8") for path in FORMS)


def test_updates_wait_for_a_week() -> None:
    """Of Python packages and of actions."""
    updates = read(GITHUB / "dependabot.yml")["updates"]
    assert [update["package-ecosystem"] for update in updates] == ["pip", "github-actions"]
    assert all(update["cooldown"]["default-days"] >= 7 for update in updates)


def test_the_owner_of_the_code_maintains_the_package() -> None:
    """One address for both."""
    (line,) = re.findall(r"^\* (\S+)$", (GITHUB / "CODEOWNERS").read_text(), re.MULTILINE)
    assert f"<{line}>" in (DEPLOY / "agent" / "debian" / "control").read_text()


def test_the_yaml_is_formatted() -> None:
    """As the files in deploy/; `on` is the name of a key."""
    style = STYLE.replace("rules: {", "rules: {truthy: {check-keys: false}, ")
    lint("yamllint", "--strict", "--config-data", style, *sorted(GITHUB.rglob("*.yml")))
