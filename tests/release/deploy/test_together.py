"""Checks of all files in deploy/: valid commands, no secrets, existing references."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from fairwarning.guest.agent import config as agent_config
from fairwarning.service.config import fleet_file
from tests.docs.chapters import cli
from tests.fixtures.programs import ROOT
from tests.release.deploy.files import DEPLOY, UNIT, Command, command_lines, lint, settings

FILES = sorted(
    path for path in DEPLOY.rglob("*") if path.is_file() and path.parent.name != "__pycache__"
)
LINES = list(command_lines())
COMMANDS = cli.tree()
# The default of `yamllint`, with our line length, and comments as Python's formatter has them.
STYLE = (
    "{extends: default, rules: {line-length: {max: 120}, document-start: disable, "
    "comments: {min-spaces-from-content: 1}}}"
)


def name(path: Path) -> str:
    """Return the name of a file in a report."""
    return str(path.relative_to(DEPLOY))


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.where)
def test_the_command_is_valid(line: Command) -> None:
    """The program's own parser raises an error if an argument is wrong."""
    noun, *words = line.words
    context = COMMANDS[noun].make_context(noun, words)
    assert context.params


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("fleet.toml")), ids=name)
def test_the_fleet_file_is_valid(path: Path) -> None:
    """The service can read it."""
    assert fleet_file.read(path.read_text(), path.name).commands


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("agent.toml")), ids=name)
def test_the_configuration_of_the_agent_is_valid(path: Path) -> None:
    """The agent can read it, and every .toml file is of a fleet or of an agent."""
    assert agent_config.read(path).approve
    others = {
        file for file in DEPLOY.rglob("*.toml") if file.name not in {"agent.toml", "fleet.toml"}
    }
    assert others <= set(DEPLOY.glob("kubernetes-agent/**/*.toml"))


def test_the_yaml_is_formatted() -> None:
    """Consistent indentation and spacing, and no duplicate keys."""
    lint("yamllint", "--strict", "--config-data", STYLE, *sorted(DEPLOY.rglob("*.yaml")))


SECRETS = {
    "a password in a URL": r"postgres(?:ql)?://[^\s:@/]+:[^\s@/]+@",
    "a password": r"(?i)passw(?:or)?d\s*[:=]\s*[\"']?"
    r"(?!\?|\$\{|[A-Z]+-PASSWORD|\"\"|''|\s|\$\(openssl)[^\s\"']",
    "a key": r"-----BEGIN",
    "a token": r"eyJ[\w-]{10,}",
}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_secret_is_in_the_file(path: Path) -> None:
    """Nor one on a command line, where all users of a host can read it."""
    text = path.read_text()
    assert [what for what, pattern in SECRETS.items() if re.search(pattern, text)] == []


def test_no_database_url_is_on_a_command_line() -> None:
    """It comes from the environment, even if it has no password."""
    assert [line.where for line in LINES if "postgresql://" in " ".join(line.words)] == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_the_image_tag_is_this_version(path: Path) -> None:
    """In every file that contains the tag."""
    tags = re.findall(r"(?:fairwarning:|newTag: )([\w.]+\w)", path.read_text())
    assert set(tags) <= {version("fairwarning")}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_referenced_files_exist(path: Path) -> None:
    """Pages and files of the repository, by their path from its root."""
    named = re.findall(r"(?<![\w/.-])((?:docs|deploy|examples)/[\w/.-]*\w)", path.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_fleet_files_have_the_same_path_everywhere() -> None:
    """In a unit, in a container and in a pod."""
    files = {line.words[1] for line in LINES if line.words[1].endswith(".toml")}
    assert files == {"/etc/fairwarning/fleet.toml"}
    assert settings(UNIT)["EnvironmentFile"] == ["-/etc/fairwarning/environment"]
