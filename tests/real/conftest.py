"""Every test here runs in a private network namespace, from which no other host is reachable."""

import os
from pathlib import Path

import pytest

from tests.fixtures import private_network
from tests.fixtures.requirements import installed_az


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run a test and its fixtures in a private network namespace.

    Those of the Azure CLI take 300 s of CPU where it is installed: `make test-all` has most.
    """
    uses_az = "az" in getattr(item, "fixturenames", ())
    if uses_az and item.path.name != "test_az.py":
        item.add_marker(pytest.mark.campaign)

    def check() -> None:
        if uses_az:
            installed_az()

    private_network.isolate(item, check)


@pytest.fixture
def az(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the path of the installed Azure CLI, and add it to PATH."""
    program = installed_az()
    monkeypatch.setenv("PATH", f"{Path(program).parent}:{os.environ['PATH']}")
    return program
