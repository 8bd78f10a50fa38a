"""Every test here runs in a private network: nothing that it starts reaches further."""

import os
from pathlib import Path

import pytest

from tests.fixtures import private_network
from tests.fixtures.requirements import installed_az


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run a test, and its fixtures, in a private network."""

    def check() -> None:
        if "az" in getattr(item, "fixturenames", ()):
            installed_az()

    private_network.isolate(item, check)


@pytest.fixture
def az(monkeypatch: pytest.MonkeyPatch) -> str:
    """The installed Azure CLI, which is on the PATH from here on."""
    found = installed_az()
    monkeypatch.setenv("PATH", f"{Path(found).parent}:{os.environ['PATH']}")
    return found
