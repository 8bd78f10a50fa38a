"""What `make dist` builds for the agent, built once; and Pythons to run it with."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.fixtures.programs import ROOT, run_program
from tests.packaging.building import build_agent

OLD_PYTHONS = ("python3.9", "python3.10", "pypy3")
IS_OLD = "import sys; sys.exit(not (3, 9) <= sys.version_info < (3, 11))"


@pytest.fixture(name="dist", scope="session")
def _dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with fairwarning-agent.pyz and the Debian package."""
    return build_agent(tmp_path_factory.mktemp("dist"))


@pytest.fixture(name="pyz", scope="session")
def _pyz(dist: Path) -> Path:
    """Return the path of fairwarning-agent.pyz."""
    return dist / "fairwarning-agent.pyz"


@pytest.fixture(name="deb", scope="session")
def _deb(dist: Path) -> Path:
    """Return the path of the Debian package."""
    (path,) = dist.glob("*.deb")
    return path


@pytest.fixture(name="old_python", scope="session")
def _old_python() -> str:
    """Return the path of a Python 3.9 or 3.10 that runs, which a shim may not."""
    for name in OLD_PYTHONS:
        path = shutil.which(name)
        if path and run_program(path, "-c", IS_OLD, cwd=ROOT).returncode == 0:
            return path
    pytest.skip("needs a Python 3.9 or 3.10: apt-get install pypy3")


@pytest.fixture(name="python", scope="session", params=["this Python", "an older Python"])
def _python(request: pytest.FixtureRequest) -> str:
    """Return the path of this Python, and of an older one."""
    if request.param == "this Python":
        return sys.executable
    return str(request.getfixturevalue("old_python"))
