"""Every test here runs in a private network: nothing that it starts reaches further."""

import os
import shutil
from pathlib import Path

import pytest

from tests.fixtures import private_network


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run a test, and its fixtures, in a private network."""

    def check() -> None:
        if "az" in getattr(item, "fixturenames", ()):
            _installed_az(item.config.rootpath)

    private_network.isolate(item, check)


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
