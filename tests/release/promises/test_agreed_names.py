"""Names that scripts relied on before there were snapshots; `--rewrite-promises` keeps them."""

from functools import cache

import pytest

from tests.fixtures.programs import ROOT
from tests.release.promises.cli_surface import commands
from tests.release.promises.outline import Outline
from tests.release.promises.program_surfaces import variables

VERBS = {
    "machine": "create list show restart redeploy freeze evict fail delete",
    "set": "create scale upgrade delete-instances show",
    "event": "list show approve cancel explain watch",
    "rollout": "start status pause resume abort",
    "clock": "show advance freeze run",
    "fault": "set clear",
    "scenario": "run list",
    "agent": "run check simulate",
    "token": "create list revoke",
    "context": "add use list remove",
}
OPTIONS = {
    "up": "--data --memory --metadata --console --arm --clock --json --machine-ports"
    " --default-machine",
    "exec": "--once --forward",
    "rollout start": "--dry-run --yes",
    "agent check": "--event",
    "agent simulate": "--event",
    "[options that name a service]": "--server --context --data",
}
LIST_FORMS = "json jsonl csv name"
VARIABLES = "FAIRWARNING_URL FAIRWARNING_TOKEN"
TARGETS = ".venv run test test-all test-containers check bench conformance docs dist"


@cache
def command_line() -> Outline:
    """Return all commands with their options."""
    return commands()


@pytest.mark.parametrize("noun", VERBS)
def test_verbs(noun: str) -> None:
    """Each verb of a noun is a command."""
    assert [v for v in VERBS[noun].split() if f"{noun} {v}" not in command_line()] == []


@pytest.mark.parametrize("command", ["exec", "certify", "az", "healthcheck", "up"])
def test_commands_without_a_verb(command: str) -> None:
    """They exist under these names."""
    assert command in command_line()


@pytest.mark.parametrize("command", OPTIONS)
def test_options(command: str) -> None:
    """Each option exists, whatever it takes."""
    names = {line.partition(":")[0] for line in command_line()[command]}
    assert set(OPTIONS[command].split()) <= names


@pytest.mark.spec("O14")
def test_forms_of_lists() -> None:
    """A script gets a list in the form that it can read."""
    (output,) = (
        parts
        for line, parts in command_line()["[options of lists]"].items()
        if line.startswith("--output:")
    )
    assert {f"choice {form}" for form in LIST_FORMS.split()} <= set(output)


@pytest.mark.spec("O13")
def test_variables() -> None:
    """A script names a service and its token in the environment."""
    read = variables()["read by commands, the service, the SDK and the agent"]
    assert set(VARIABLES.split()) <= set(read)


@pytest.mark.parametrize("target", TARGETS.split())
def test_targets_of_make(target: str) -> None:
    """The Makefile has a rule for each."""
    assert f"\n{target}:" in (ROOT / "Makefile").read_text("utf-8")
