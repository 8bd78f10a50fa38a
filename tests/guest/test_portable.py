"""The guest side runs on Linux, macOS and Windows, and needs only Python (G).

Differences between systems are in agent/system.py: `make check` looks at the source files as on
Windows, and so also covers code that never runs here.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from fairwarning.guest.agent import system
from tests.fixtures.programs import run_python

OURS = (
    "fairwarning.guest",
    *(f"fairwarning.core.{name}" for name in ("configuration", "errors", "times")),
)


def is_allowed(name: str) -> bool:
    """Whether the guest side may import this module; tomli is tomllib before Python 3.11."""
    return name.partition(".")[0] in {"tomli", *sys.stdlib_module_names} or any(
        name == module or name.startswith(f"{module}.") for module in OURS
    )


# --- In a fresh interpreter -----------------------------------------------------------------------

LOADED = """
import json, sys
before = set(sys.modules)
{statement}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded(statement: str) -> list[str]:
    """Return the modules that a statement loads in a fresh interpreter."""
    code = LOADED.format(statement=statement)
    environment = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    names: list[str] = json.loads(run_python(code, env=environment, check=True).stdout)
    return names


def foreign_modules(names: list[str]) -> list[str]:
    """Return modules outside the standard library and the guest side."""
    parents = {"fairwarning", "fairwarning.core"}
    return [name for name in names if name not in parents and not is_allowed(name)]


def test_importing_fairwarning_loads_hardly_anything() -> None:
    """A program that imports the package loads only what it uses."""
    names = loaded("import fairwarning")
    assert foreign_modules(names) == []
    assert [name for name in names if name.startswith("fairwarning")] == ["fairwarning"]


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    "statement",
    [
        "from fairwarning import ScheduledEvents",
        "from fairwarning import *",
        "import fairwarning.guest.agent.hooks, fairwarning.guest.agent.journal",
    ],
)
def test_the_guest_side_loads_only_what_python_has(statement: str) -> None:
    """The client and the agent run with nothing but Python installed."""
    assert foreign_modules(loaded(statement)) == []


def test_an_agent_at_rest_loads_no_openssl() -> None:
    """It takes 4 MiB, and `http.client` and `http.server` more; what needs them imports them."""
    names = loaded("import fairwarning.cli.agent, fairwarning.guest.agent.health")
    assert {"ssl", "hashlib", "http.client", "http.server", "email"}.isdisjoint(names)


# --- Differences ----------------------------------------------------------------------------------


def test_a_lock_is_held_by_one_process(tmp_path: Path) -> None:
    """Another process cannot take it until it is released."""
    code = f"""
import sys
from pathlib import Path
from fairwarning.guest.agent.system import lock
sys.exit(lock(Path({str(tmp_path / "lock")!r})) is None)
"""
    held = system.lock(tmp_path / "lock")
    assert held is not None
    assert run_python(code).returncode == 1
    os.close(held)
    assert run_python(code).returncode == 0
    with pytest.raises(FileNotFoundError):
        system.lock(tmp_path / "missing" / "lock")


@pytest.mark.parametrize(
    ("platform", "state", "config"),
    [
        ("linux", "/var/lib/fairwarning-agent", "/etc/fairwarning/agent.toml"),
        (
            "darwin",
            "/Users/me/Library/Application Support/Fairwarning/agent",
            "/Users/me/Library/Application Support/Fairwarning/agent.toml",
        ),
        ("win32", "D:/Data/Fairwarning/agent", "D:/Data/Fairwarning/agent.toml"),
    ],
)
def test_default_paths_of_each_system(
    monkeypatch: pytest.MonkeyPatch, platform: str, state: str, config: str
) -> None:
    """They follow the conventions of the system."""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", "/Users/me")
    monkeypatch.setenv("PROGRAMDATA", "D:/Data")
    assert system.state_folder().as_posix() == state
    assert system.config_file().as_posix() == config
