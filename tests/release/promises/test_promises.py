"""What users may rely on is what snapshots/ says: docs/compatibility.md explains each file."""

import re
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairwarning.cli import agent
from fairwarning.cli.commands import program
from tests.docs.pages import DOCS, text_of
from tests.release.promises import file_surfaces, http_surfaces, program_surfaces, wire_surfaces
from tests.release.promises.cli_surface import commands
from tests.release.promises.json_surface import json_output, stream
from tests.release.promises.outline import Outline, render
from tests.release.promises.program_surfaces import kubernetes, variables
from tests.release.promises.python_surface import python_api

FOLDER = Path(__file__).parent / "snapshots"
SURFACES: dict[str, Callable[[], Outline]] = {
    "agent_file": file_surfaces.agent_file,
    "command_line": commands,
    "control_plane": http_surfaces.control_plane,
    "error_codes": program_surfaces.error_codes,
    "exit_codes": program_surfaces.exit_codes,
    "fleet_file": file_surfaces.fleet_file,
    "health": wire_surfaces.health,
    "json_output": json_output,
    "kubernetes": program_surfaces.kubernetes,
    "metadata": wire_surfaces.metadata,
    "metrics": wire_surfaces.metrics,
    "operator_api": http_surfaces.operator_api,
    "program_input": program_surfaces.program_input,
    "pytest_plugin": program_surfaces.plugin,
    "python": python_api,
    "scenario_file": file_surfaces.scenario_file,
    "stream": stream,
    "variables": program_surfaces.variables,
    "webhooks": wire_surfaces.webhooks,
}
REWRITE = "`.venv/bin/python -m pytest tests/release/promises --rewrite-promises`"


def path_of(name: str) -> Path:
    """Return the snapshot of a surface."""
    return FOLDER / f"{name}.txt"


def is_rewriting(request: pytest.FixtureRequest) -> bool:
    """Return whether this run writes the snapshots anew."""
    return bool(request.config.getoption("--rewrite-promises", default=False))


@pytest.mark.parametrize("name", SURFACES)
def test_the_surface_is_as_promised(name: str, request: pytest.FixtureRequest) -> None:
    """A change of something that users rely on is a decision, not an accident."""
    text = render(SURFACES[name]())
    if is_rewriting(request):
        path_of(name).write_text(text, "utf-8")
    before = path_of(name).read_text("utf-8")
    if text != before:
        pytest.fail(explanation(name, before, text), pytrace=False)


def explanation(name: str, before: str, after: str) -> str:
    """Say what the difference means for users, and what to do."""
    diff = unified_diff(before.splitlines(), after.splitlines(), "promised", "program", lineterm="")
    return "\n".join(
        [
            f"snapshots/{name}.txt differs from the program (docs/compatibility.md):",
            *diff,
            "A line that disappears (-) breaks a promise: after 1.0 it needs a new major version.",
            "A line that is new (+) needs a new minor version, or a major one if it is required.",
            f"If it is on purpose, run {REWRITE},",
            "review the diff, and add a line to CHANGELOG.md. If not, undo it.",
        ]
    )


def test_every_snapshot_has_a_surface(request: pytest.FixtureRequest) -> None:
    """No file is left over from a removed surface."""
    left_over = [path for path in FOLDER.iterdir() if path.stem not in SURFACES]
    if is_rewriting(request):
        for path in left_over:
            path.unlink()
    else:
        assert left_over == []


def test_the_page_names_every_snapshot() -> None:
    """docs/compatibility.md says what each file means for users."""
    page = (DOCS / "compatibility.md").read_text("utf-8")
    assert set(re.findall(r"snapshots/(\w+)\.txt", page)) == set(SURFACES)


# --- What is promised is documented: a name that no page explains cannot be relied on -------------


PAGES = {
    "read by commands, the service, the SDK and the agent": ["compatibility.md"],
    "for the programs of exec and certify": ["exec.md", "certify.md"],
    "for hooks of the agent": ["agent.md"],
    "for the program of the command driver": ["driver-command.md"],
}


def test_every_group_of_variables_has_a_page() -> None:
    """A new group needs one."""
    assert PAGES.keys() == variables().keys()


@pytest.mark.parametrize("group", PAGES)
def test_every_variable_is_documented(group: str) -> None:
    """On the page of the programs that get or set it."""
    text = "".join(text_of(DOCS / page) for page in PAGES[group])
    assert [name for name in variables()[group] if f"`{name}`" not in text] == []


def test_every_name_of_a_test_cloud_is_documented() -> None:
    """docs/pytest.md shows each method and attribute of a cloud and of what it makes."""
    page = text_of(DOCS / "pytest.md")
    members = [line for parts in python_api()["fairwarning.testing"].values() for line in parts]
    names = {re.split(r"[(:]", line)[0] for line in members} - {"__init__", "__enter__"}
    assert sorted(name for name in names if not re.search(rf"[.`]{name}\b", page)) == []


def test_every_name_on_a_node_is_documented() -> None:
    """docs/agent-kubernetes.md lists taint, labels, annotations, condition and Events."""
    page = text_of(DOCS / "agent-kubernetes.md")
    names = [re.sub(r":.*", "", line).split()[-1] for line in kubernetes()]
    assert [name for name in names if name not in page] == []


# --- A name has one spelling: a second one, once it works, is a promise that nobody has made ------


@pytest.mark.parametrize("words", [["run", "--conf", "x"], ["check", "--js"]])
def test_the_agent_takes_no_abbreviations(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A new option would make them ambiguous."""
    with pytest.raises(SystemExit) as ended:
        agent._parser().parse_args(words)
    assert ended.value.code == 2
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["machine", "list", "--jso"], ["machine", "lis"], ["token", "ci", "--role", "reader"]]
)
def test_commands_take_no_abbreviations(words: list[str]) -> None:
    """Neither of options nor of verbs; a verb cannot be left out."""
    result = CliRunner().invoke(program, words)
    assert result.exit_code == 2
    assert "No such" in result.output
