"""What other programs meet, as outlines: variables, input of programs, codes, the pytest plugin."""

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

import fairwarning
from fairwarning import pytest_plugin
from fairwarning.cli.output import errors
from fairwarning.core.model import Impact, ImpactKind
from fairwarning.guest.agent import work
from fairwarning.guest.agent.actions import RunHook
from fairwarning.guest.agent.config import HookKind, HookSettings
from fairwarning.guest.agent.kubernetes import nodes, pods, reports
from fairwarning.guest.events import Event, EventStatus, EventType, Phase
from fairwarning.machines.command import keeper
from fairwarning.machines.command.driver import impact_json
from tests.release.promises.outline import Outline, outline_of
from tests.release.promises.wire_surfaces import shape

_SOURCE = Path(fairwarning.__file__).parent
_VARIABLE = re.compile(r"FAIRWARNING_[A-Z_]*[A-Z]")
_INTERNAL = {"FAIRWARNING_FAILPOINT", "FAIRWARNING_WORKER"}  # of tests, and of our own processes
_OF_PROGRAMS = {"FAIRWARNING_ENDPOINT", "FAIRWARNING_MACHINE", "FAIRWARNING_TRAP"}
"""For the programs that `exec` and `certify` run; the SDK and the agent read the first."""
_NOON = datetime(2026, 1, 9, 12, tzinfo=UTC)

# --- Variables, and what programs get -------------------------------------------------------------


def variables() -> Outline:
    """Return the environment variables that we read, and those that programs get."""
    hook, impact = _hook(), _impact()
    for_hooks = set(work.environment(hook, "web"))
    for_drivers = set(keeper._variables(impact))
    others = _named_variables() - for_hooks - for_drivers - _INTERNAL - _OF_PROGRAMS
    return {
        "read by commands, the service, the SDK and the agent": outline_of(
            sorted({*others, "FAIRWARNING_ENDPOINT"})
        ),
        "for the programs of exec and certify": outline_of(sorted(_OF_PROGRAMS)),
        "for hooks of the agent": outline_of(sorted(for_hooks)),
        "for the program of the command driver": outline_of(sorted(for_drivers)),
    }


def program_input() -> Outline:
    """Return the JSON that hooks, and the program of the command driver, get on standard input."""
    return {
        "for hooks of the agent": shape([work.describe(_hook(), "web")]),
        "for the program of the command driver": {
            **shape([_impact()]),
            **outline_of(f"kind {kind.value}" for kind in ImpactKind),
        },
    }


def _hook() -> RunHook:
    settings = HookSettings("drain", Phase.SCHEDULED, HookKind.COMMAND)
    event = Event("E1", EventType.REBOOT, EventStatus.SCHEDULED, ("web",), _NOON)
    return RunHook(settings, Phase.SCHEDULED, event, _NOON)


def _impact() -> dict[str, Any]:
    impact = Impact(id="i", scope="web", machine="web", kind=ImpactKind.REBOOT, operation="o")
    return {**impact_json(impact), "repeat": False}


def _named_variables() -> set[str]:
    """Return the variables that the source names."""
    sources = (path.read_text("utf-8") for path in _SOURCE.rglob("*.py"))
    texts = [
        node.value
        for source in sources
        if _VARIABLE.search(source)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return {text for text in texts if _VARIABLE.fullmatch(text)}


# --- Codes ----------------------------------------------------------------------------------------

_ERRORS = {"Refused", "NotFound", "Conflict", "Unavailable"}
_PACKAGES = {
    "operator API": ("core", "service", "console"),
    "SDK": ("guest",),
    "fairwarning.testing": ("testing",),
}


def exit_codes() -> Outline:
    """Return the exit codes that all commands share."""
    return {
        "0: success": {},
        f"{errors.FAILED}: failure": {},
        f"{click.UsageError.exit_code}: wrong usage": {},
        f"{errors.NOT_FOUND}: not found": {},
        f"{errors.REFUSED}: refused": {},
    }


def error_codes() -> Outline:
    """Return the codes of errors by which clients tell them apart."""
    return {
        surface: outline_of(sorted({code for name in packages for code in _codes(_SOURCE / name)}))
        for surface, packages in _PACKAGES.items()
    }


def _codes(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*.py"):
        if "agent" in path.parts:
            continue  # its errors end in its log
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                code = node.args[0] if node.func.id in _ERRORS and node.args else None
                if isinstance(code, ast.Constant) and isinstance(code.value, str):
                    yield code.value


# --- Kubernetes -----------------------------------------------------------------------------------


def kubernetes() -> Outline:
    """Return the names that the agent writes to nodes, or reads from pods."""
    return outline_of(
        [
            f"taint {nodes.TAINT}: NoSchedule",
            f"annotation {nodes.EVENT_ID}",
            f"annotation {nodes.CORDONED}",
            f"label and annotation {nodes.READY}EVENT",
            f"label or annotation of a pod {pods.SKIP}: skip",
            f"condition {nodes.CONDITION}",
            *(f"event {reason.value}" for reason in reports.Reason),
            f"variable {nodes.NODE_NAME}",
        ]
    )


# --- The pytest plugin ----------------------------------------------------------------------------


def plugin() -> Outline:
    """Return the fixtures, the mark and the setting of the plugin, as it registers them."""
    recorded = _RecordedPlugin()
    pytest_plugin.pytest_addoption(recorded)  # type: ignore[arg-type]  # it has what is called
    pytest_plugin.pytest_configure(recorded)  # type: ignore[arg-type]  # likewise
    definitions = [
        value
        for value in vars(pytest_plugin).values()
        if isinstance(value, type(pytest_plugin._fairwarning))
    ]
    fixtures = sorted(str(definition.name) for definition in definitions)
    return outline_of([*(f"fixture {name}" for name in fixtures), *recorded.lines])


class _RecordedPlugin:
    """A parser and a configuration that note what the plugin adds to them."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def addini(self, name: str, *_: object, default: str) -> None:
        self.lines.append(f"setting {name} = {default!r}")

    def addinivalue_line(self, _: str, line: str) -> None:
        self.lines.append(f"mark {line.split(':', maxsplit=1)[0]}")
