"""The tests that workflows run on macOS and Windows need nothing that only Linux has.

tests/macos.txt and tests/guest/windows.txt list them, one argument of pytest a line.
"""

import sys
from pathlib import Path

import pytest

from tests.fixtures.loopback import only_one_address
from tests.fixtures.private_network import run_inside
from tests.fixtures.programs import ROOT, run_program, run_python
from tests.fixtures.requirements import needs_linux, needs_namespaces
from tests.fixtures.waiting import OUTER_LIMIT_SECONDS

MACOS = ROOT / "tests" / "macos.txt"
WINDOWS = ROOT / "tests" / "guest" / "windows.txt"
CLOUDS = [*ROOT.glob("tests/plugin/test_*.py"), *ROOT.glob("tests/scenarios/test_s*.py")]

# Functions of POSIX are taken away after the standard library and pytest were imported, and the one
# module of the guest side that may use them. The event loop of this system needs Unix sockets.
WITHOUT_POSIX = """
import asyncio, http.client, os, signal, socket, subprocess, sys, tempfile
import pytest
import fairwarning.guest.agent.system
for module, names in (
    (os, "fork killpg setsid waitid mkfifo getpgid chown"),
    (signal, "SIGUSR1 SIGSTOP SIGCONT setitimer"),
    (socket, "SO_REUSEPORT recv_fds send_fds"),
):
    for name in names.split():
        delattr(module, name)
for name in ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios"):
    sys.modules[name] = None
rewritten = "ignore::pytest.PytestAssertRewriteWarning"  # about the module above
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-W", rewritten, *sys.argv[1:]]))
"""


def files(path: Path) -> list[Path]:
    """Return the files that a list names, by themselves or by their folder."""
    entries = [ROOT / line for line in path.read_text("utf-8").splitlines()]
    return [
        file
        for entry in entries
        for file in (sorted(entry.glob("test_*.py")) if entry.is_dir() else [entry])
    ]


def test_the_listed_files_exist() -> None:
    """All that Windows runs, macOS runs too."""
    assert {*files(WINDOWS)} < {*files(MACOS)}
    assert [path for path in files(MACOS) if not path.is_file()] == []


# --- Windows --------------------------------------------------------------------------------------


@pytest.mark.campaign
@pytest.mark.parametrize("path", files(WINDOWS), ids=lambda path: path.stem)
def test_they_pass_without_posix(path: Path, tmp_path: Path) -> None:
    """In a process that has no function of POSIX."""
    done = run_python(WITHOUT_POSIX, f"--basetemp={tmp_path}", path, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


# --- macOS ----------------------------------------------------------------------------------------


@needs_linux
@needs_namespaces
@pytest.mark.campaign
@pytest.mark.parametrize("path", CLOUDS, ids=lambda path: path.stem)
def test_they_pass_with_one_loopback_address(path: Path, tmp_path: Path) -> None:
    """Those that start a cloud, in a network that is like the one of macOS."""

    def check() -> None:
        only_one_address()
        options = ("-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path}")
        command = (sys.executable, "-m", "pytest", *options, path)
        done = run_program(*command, cwd=ROOT, timeout=OUTER_LIMIT_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr

    run_inside(check)
