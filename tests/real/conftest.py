"""Every test here runs in a room of its own (see `room.py`): nothing it starts reaches further."""

import os
import shutil
from pathlib import Path

import pytest

from tests.real import room


def pytest_itemcollected(item: pytest.Item) -> None:
    """Outside, a test is: run it in a room. Its fixtures are set up there, and only there."""
    if not room.is_inside():
        item.setup = lambda: None  # type: ignore[method-assign]
        item.runtest = lambda: _play(item)  # type: ignore[method-assign]


def _play(item: pytest.Item) -> None:
    root = item.config.rootpath
    if "az" in getattr(item, "fixturenames", ()):
        _installed_az(root)  # a room only to say that it is missing would take seconds
    room.play(item.nodeid, root)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Inside, say why a test was skipped."""
    if room.is_inside() and report.skipped and isinstance(report.longrepr, tuple):
        room.note_skip(report.longrepr[2].removeprefix("Skipped: "))


@pytest.fixture
def az(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> str:
    """The installed Azure CLI, which is on the PATH from here on."""
    found = _installed_az(pytestconfig.rootpath)
    monkeypatch.setenv("PATH", f"{Path(found).parent}:{os.environ['PATH']}")
    return found


def _installed_az(root: Path) -> str:
    ours = root / ".venv-az" / "bin" / "az"
    found = os.environ.get("FAIRWARNING_AZ") or shutil.which(ours) or shutil.which("az")
    if not found:
        pytest.skip("the Azure CLI is not installed; `make az` installs it in .venv-az")
    return found
