"""What users may rely on is what snapshots/ says: docs/compatibility.md explains each file."""

import re
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.docs.pages import DOCS
from tests.release.promises import file_surfaces, http_surfaces, program_surfaces, wire_surfaces
from tests.release.promises.cli_surface import commands
from tests.release.promises.json_surface import json_output
from tests.release.promises.outline import Outline, render
from tests.release.promises.python_surface import python_api
from tests.release.promises.stream_surface import stream

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
