"""A folder for the servers of one test run, and a watchdog that ends them with it.

All workers of a run share one; no other run does.
"""

import fcntl
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WATCHDOG = Path(__file__).with_name("watchdog.py")


def reachable(path: Path) -> bool:
    """Whether somebody else than its owner gets there: PostgreSQL does not run as root."""
    return os.geteuid() != 0 or all(one.stat().st_mode & 1 for one in (path, *path.parents))


def _place() -> Path:
    for name in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if reachable(Path(name)):
            return Path(name)
    raise OSError("PostgreSQL needs a temporary folder that is not root's alone; set TMPDIR to one")


def _run() -> tuple[str, int]:
    """What tells this run from others, and the process it ends with."""
    if run := os.environ.get("PYTEST_XDIST_TESTRUNUID"):
        return run, os.getppid()  # a worker's parent is the one that gives out the tests
    return str(os.getpid()), os.getpid()


@functools.cache
def folder() -> Path:
    """This run's folder. The first who asks makes it, and sets the watchdog on it."""
    name, process = _run()
    path = _place() / f"fairwarning-postgres-{name}"
    path.mkdir(mode=0o711, exist_ok=True)
    assert path.stat().st_uid == os.geteuid(), f"{path} is somebody else's; remove it"
    with _locked(path):
        watched = path / "watched"
        if not watched.exists():
            subprocess.run([sys.executable, "-I", WATCHDOG, str(process), path], check=True)
            watched.touch()
    return path


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with (path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def locked() -> Iterator[None]:
    """Keep the other workers of this run waiting."""
    with _locked(folder()):
        yield
