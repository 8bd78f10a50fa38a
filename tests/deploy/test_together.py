"""What holds for all files of deploy/: their commands can be typed, and no secret is in them."""

import re
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from fairwarning.service.config import fleet_file
from tests.deploy.files import DEPLOY, UNIT, Command, command_lines, lint, settings
from tests.docs.chapters import cli
from tests.fixtures.programs import ROOT

FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
LINES = list(command_lines())
COMMANDS = cli.tree()
# As `yamllint` itself, but for our line length, and comments as the formatter of Python has them.
STYLE = (
    "{extends: default, rules: {line-length: {max: 120}, document-start: disable, "
    "comments: {min-spaces-from-content: 1}}}"
)


def name(path: Path) -> str:
    """What a file is called in a report."""
    return str(path.relative_to(DEPLOY))


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.where)
def test_its_command_can_be_typed(line: Command) -> None:
    """By the program's own reading of its words: what is wrong about one is raised here."""
    noun, *words = line.words
    context = COMMANDS[noun].make_context(noun, words)
    assert context.params


def test_a_command_that_cannot_is_found() -> None:
    """Or else the test above proves nothing."""
    with pytest.raises(click.UsageError):
        test_its_command_can_be_typed(Command("here", ("up", "--dat", "/var/lib/fairwarning")))
    with pytest.raises(click.UsageError):
        test_its_command_can_be_typed(Command("here", ("up", "--console", "8170")))


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.toml")), ids=name)
def test_its_fleet_file_is_right(path: Path) -> None:
    """As the service reads it."""
    assert fleet_file.read(path.read_text(), path.name).commands


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.yaml")), ids=name)
def test_its_yaml_is_tidy(path: Path) -> None:
    """Indented, ended and spaced alike; no key twice."""
    lint("yamllint", "--strict", "--config-data", STYLE, path)


SECRETS = {
    "a password in a URL": r"postgres(?:ql)?://[^\s:@/]+:[^\s@/]+@",
    "a password": r"(?i)passw(?:or)?d\s*[:=]\s*[\"']?(?!\?|\$\{|\"\"|''|\s|\$\(openssl)[^\s\"']",
    "a key": r"-----BEGIN",
    "a token": r"eyJ[\w-]{10,}",
}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_secret_is_in_it(path: Path) -> None:
    """Nor a way to put one on a command line, where all users of a host can read it."""
    text = path.read_text()
    assert [what for what, pattern in SECRETS.items() if re.search(pattern, text)] == []


def test_a_secret_is_found() -> None:
    """Or else the test above proves nothing."""
    for text in ("postgresql://me:it@host/db", "POSTGRES_PASSWORD: swordfish", "password=abc"):
        assert any(re.search(pattern, text) for pattern in SECRETS.values()), text


def test_no_url_of_a_database_is_on_a_command_line() -> None:
    """It comes from the environment, whether it has a password in it or not."""
    assert [line.where for line in LINES if "postgresql://" in " ".join(line.words)] == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_its_image_is_of_this_version(path: Path) -> None:
    """Wherever the tag stands."""
    tags = re.findall(r"(?:fairwarning:|newTag: )([\d.]+\d)", path.read_text())
    assert set(tags) <= {version("fairwarning")}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_what_it_names_is_there(path: Path) -> None:
    """Pages and files of the repository, as they are called from its top."""
    named = re.findall(r"(?<![\w/.-])((?:docs|deploy|examples)/[\w/.-]*\w)", path.read_text())
    assert [one for one in named if not (ROOT / one).exists()] == []


def test_fleet_files_are_where_commands_look_for_them() -> None:
    """The same place in a unit, in a container and in a pod."""
    files = {line.words[1] for line in LINES if line.words[1].endswith(".toml")}
    assert files == {"/etc/fairwarning/fleet.toml"}
    assert settings(UNIT)["EnvironmentFile"] == ["-/etc/fairwarning/environment"]
