"""The tests that workflows run on macOS and Windows need nothing that only Linux has.

tests/macos.txt and tests/guest/windows.txt list them, one argument of pytest a line.
"""

import ast
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import fairwarning
from tests.fixtures.loopback import only_one_address
from tests.fixtures.private_network import run_inside
from tests.fixtures.programs import ROOT, run_program, run_python
from tests.fixtures.requirements import needs_linux, needs_namespaces
from tests.fixtures.waiting import OUTER_LIMIT_SECONDS
from tests.guest.test_portable import imported, is_allowed, platform_names, read

MACOS = ROOT / "tests" / "macos.txt"
WINDOWS = ROOT / "tests" / "guest" / "windows.txt"
CONFTEST = ROOT / "tests" / "guest" / "conftest.py"
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
PACKAGES = {line.partition(">")[0] for line in GROUPS["guest-test"]}

CLOUDS = [*ROOT.glob("tests/plugin/test_*.py"), *ROOT.glob("tests/scenarios/test_s*.py")]

# These give each machine an address of 127.0.0.0/8, or a namespace.
LINUX_ONLY = {"endpoint", "loopback", "private_network", "service"}

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


def listed(path: Path) -> list[str]:
    """Return the lines of a list."""
    return path.read_text("utf-8").splitlines()


def files(path: Path) -> list[Path]:
    """Return the files that a list names, by themselves or by their folder."""
    entries = [ROOT / line for line in listed(path)]
    return [
        file
        for entry in entries
        for file in (sorted(entry.glob("test_*.py")) if entry.is_dir() else [entry])
    ]


def module_file(name: str) -> Path | None:
    """Return the file of a module of the tests."""
    path = ROOT.joinpath(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in candidates if file.is_file()), None)


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the modules that a file imports, and names that may be modules."""
    tree = read(path)
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {f"{node.module}.{alias.name}" for node in froms for alias in node.names}
    return frozenset(names | {name for name, _ in imported(tree)})


def reached(path: Path) -> set[Path]:
    """Return a file and every file of the tests that it imports, directly or not."""
    known, waiting = set(), [path]
    while waiting:
        file = waiting.pop()
        known.add(file)
        modules = {module_file(name) for name in imports(file) if name.startswith("tests.")}
        waiting += [other for other in modules if other and other not in known]
    return known


def devices(tree: ast.Module) -> list[str]:
    """Return the paths of devices that a file names."""
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [value for value in constants if isinstance(value, str) and value.startswith("/dev/")]


def needs_of(path: Path) -> list[str]:
    """Return what a file needs that Windows, or an installation of the SDK, does not have."""
    allowed = {f"fairwarning.{name}" for name in fairwarning.__all__} | {"fairwarning"}
    names = (name for name in sorted(imports(path)) if not name.startswith("tests."))
    missing = [
        name
        for name in names
        if name not in allowed
        and name.partition(".")[0] not in PACKAGES
        and not is_allowed(name)
        and not (name.startswith("fairwarning.core.") and is_allowed(name.rpartition(".")[0]))
    ]
    return platform_names(read(path)) + devices(read(path)) + missing


# --- Windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CONFTEST, *files(WINDOWS)], ids=lambda path: path.stem)
def test_windows_has_all_that_they_need(path: Path) -> None:
    """Also all that the modules need which they import."""
    assert {file.name: needs for file in reached(path) if (needs := needs_of(file))} == {}


def test_no_other_file_of_the_guest_could_run_there() -> None:
    """Each file that is not listed needs a service, a shell or POSIX."""
    others = {*CONFTEST.parent.glob("test_*.py")} - {*files(WINDOWS)}
    free = [path.name for path in others if not any(map(needs_of, reached(path)))]
    assert free == []
    assert len(others) > 10


@pytest.mark.campaign
@pytest.mark.parametrize("path", files(WINDOWS), ids=lambda path: path.stem)
def test_they_pass_without_posix(path: Path, tmp_path: Path) -> None:
    """In a process that has no function of POSIX."""
    done = run_python(WITHOUT_POSIX, f"--basetemp={tmp_path}", path, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


# --- macOS ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", files(MACOS), ids=lambda path: path.stem)
def test_macos_has_all_that_they_need(path: Path) -> None:
    """They use one loopback address, and no namespaces."""
    assert path.is_file()
    fixtures = {file.stem for file in reached(path) if file.parent.name == "fixtures"}
    assert fixtures & LINUX_ONLY == set()


def test_macos_runs_what_windows_runs() -> None:
    """And more."""
    assert {*listed(WINDOWS)} < {*listed(MACOS)}


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
