"""Every test here runs isolated (see tests/fixtures/isolation.py): no process reaches further."""

import os
from pathlib import Path

import pytest

from tests.fixtures.isolation import is_inside, isolate, note_skip
from tests.fixtures.requirements import installed_az


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run each test in an isolated process, unless it would only say there that az is missing."""
    isolate(item, installed_az if "az" in getattr(item, "fixturenames", ()) else lambda: None)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Inside, say why a test was skipped."""
    if is_inside() and report.skipped and isinstance(report.longrepr, tuple):
        note_skip(report.longrepr[2].removeprefix("Skipped: "))


@pytest.fixture
def az(monkeypatch: pytest.MonkeyPatch) -> str:
    """The installed Azure CLI, which is on the PATH from here on."""
    found = installed_az()
    monkeypatch.setenv("PATH", f"{Path(found).parent}:{os.environ['PATH']}")
    return found
