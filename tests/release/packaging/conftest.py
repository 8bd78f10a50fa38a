"""What `make dist` builds, built once for all workers; and Pythons to run it with."""

import os
import shutil
import sys
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from deploy.dist.artifacts import artifacts
from tests.fixtures.programs import ROOT, run_program
from tests.release.packaging.building import build_release

OLD_PYTHONS = ("python3.9", "python3.10", "pypy3")
IS_OLD = "import sys; sys.exit(not (3, 9) <= sys.version_info < (3, 11))"


@pytest.fixture(name="dist", scope="session")
def _dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of a release, built from this checkout."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (shared / "lock").open("w") as lock:
        flock(lock, LOCK_EX)  # one worker builds for all
        if not (shared / "dist").exists():
            build_release(shared / "building").rename(shared / "dist")
    return shared / "dist"


@pytest.fixture(name="pyz", scope="session")
def _pyz(dist: Path) -> Path:
    """Return the path of fairwarning-agent.pyz."""
    return dist / "fairwarning-agent.pyz"


@pytest.fixture(name="deb", scope="session")
def _deb(dist: Path) -> Path:
    """Return the path of the Debian package."""
    return dist / artifacts()["deb"].file


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
