"""The guest side runs on Linux, macOS and Windows, and needs only Python (G).

Differences between systems are in agent/system.py. These tests search the other source files for
names that only some systems have, and so also cover code that never runs here.
"""

import ast
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairwarning.guest
from fairwarning.guest.agent import system
from tests.fixtures.programs import run_python

GUEST = Path(fairwarning.guest.__file__).parent
SYSTEM = GUEST / "agent" / "system.py"
FILES = sorted(GUEST.rglob("*.py"))

OURS = (
    "fairwarning.guest",
    *(f"fairwarning.core.{name}" for name in ("configuration", "errors", "times")),
)
ONLY_INSIDE_FUNCTIONS = {
    path: {"lightkube"} for path in (GUEST / "agent" / "kubernetes").glob("*.py")
}

# Each entry is a string of names separated by spaces.
MODULES_OF_ONE_SYSTEM = (
    "_posixsubprocess _winapi crypt curses fcntl grp msvcrt nis ossaudiodev posix pty pwd readline"
    " resource spwd syslog termios tty winreg winsound"
)
NAMES_OF_ONE_SYSTEM = {
    "asyncio": "ThreadedChildWatcher WindowsProactorEventLoopPolicy WindowsSelectorEventLoopPolicy"
    " open_unix_connection start_unix_server",
    "os": "EX_OK EX_USAGE O_ASYNC O_BINARY O_CLOEXEC O_DIRECTORY O_DSYNC O_NOCTTY O_NOFOLLOW"
    " O_NONBLOCK O_PATH O_SYNC O_TMPFILE P_PID P_PGID RTLD_NOW WEXITED WNOHANG WNOWAIT"
    " chown chroot confstr ctermid eventfd fchmod fchown fork forkpty fstatvfs getegid geteuid"
    " getgid getgroups getloadavg getpgid getpgrp getpriority getresuid getsid getuid initgroups"
    " kill killpg lchown lockf major memfd_create minor mkfifo mknod nice openpty pidfd_open pipe2"
    " posix_spawn posix_fadvise pread preadv pwrite pwritev register_at_fork sched_getaffinity"
    " sched_setaffinity sendfile set_blocking setegid seteuid setgid setgroups setpgid setpgrp"
    " setpriority setreuid setsid setuid splice startfile statvfs sync sysconf tcgetpgrp tcsetpgrp"
    " uname wait wait3 wait4 waitid waitpid WEXITSTATUS WIFEXITED",
    "select": "epoll kqueue poll",
    "signal": "CTRL_BREAK_EVENT CTRL_C_EVENT ITIMER_REAL SIGALRM SIGBREAK SIGCHLD SIGCONT SIGHUP"
    " SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIG_BLOCK SIG_SETMASK alarm pause"
    " pthread_kill pthread_sigmask setitimer siginterrupt sigpending sigtimedwait sigwait"
    " sigwaitinfo",
    "socket": "AF_NETLINK AF_PACKET AF_UNIX AF_VSOCK CMSG_LEN SCM_RIGHTS SO_BINDTODEVICE"
    " SO_EXCLUSIVEADDRUSE SO_PEERCRED SO_REUSEPORT recv_fds send_fds sethostname",
    "subprocess": "CREATE_NEW_PROCESS_GROUP CREATE_NO_WINDOW STARTUPINFO",
    "time": "CLOCK_BOOTTIME CLOCK_MONOTONIC CLOCK_REALTIME clock_gettime clock_settime tzset",
}
METHODS_OF_ONE_SYSTEM = "add_signal_handler create_unix_connection create_unix_server"
ARGUMENTS_OF_ONE_SYSTEM = (
    "creationflags pass_fds preexec_fn process_group start_new_session startupinfo umask"
)
MAY_BE_GUARDED = frozenset({"asyncio.open_unix_connection", "asyncio.start_unix_server"})

MODULES = frozenset(MODULES_OF_ONE_SYSTEM.split())
NAMES = frozenset(
    f"{module}.{name}" for module, names in NAMES_OF_ONE_SYSTEM.items() for name in names.split()
)
METHODS = frozenset(METHODS_OF_ONE_SYSTEM.split())
ARGUMENTS = frozenset(ARGUMENTS_OF_ONE_SYSTEM.split())


# --- The search -----------------------------------------------------------------------------------


def platform_names(tree: ast.Module) -> list[str]:
    """Return names that only some systems have, with their lines."""
    guarded = {node for part in ast.walk(tree) if _guards(part) for node in ast.walk(part)}
    uses = []
    for node in ast.walk(tree):
        for name in _names(node):
            if name in MAY_BE_GUARDED and node in guarded:
                continue
            uses.append(f"line {getattr(node, 'lineno', 0)}: {name}")
    return uses


def _guards(node: ast.AST) -> bool:
    """Whether this function checks the system before it acts."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    tests = [
        ast.unparse(child.test) for child in ast.walk(node) if isinstance(child, ast.If | ast.IfExp)
    ]
    return any("sys.platform" in test or "hasattr(" in test for test in tests)


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            if f"{module}.{name}" in NAMES:
                yield f"{module}.{name}"
            elif name in METHODS:
                yield f".{name}"
        case ast.Attribute(attr=name) if name in METHODS:
            yield f".{name}"
        case ast.ImportFrom(module=str(module), names=names):
            yield from (
                f"{module}.{alias.name}" for alias in names if f"{module}.{alias.name}" in NAMES
            )
            yield from {module} & MODULES
        case ast.Import(names=names):
            yield from (alias.name for alias in names if alias.name in MODULES)
            yield from (f"{alias.name} as {alias.asname}" for alias in names if _hides(alias))
        case ast.Call(keywords=keywords):
            yield from (f"{keyword.arg}=" for keyword in keywords if keyword.arg in ARGUMENTS)


def _hides(alias: ast.alias) -> bool:
    """Whether an import renames a module, which would hide it from this search."""
    return alias.asname is not None and alias.name in NAMES_OF_ONE_SYSTEM


def imported(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Return the modules that a file imports, and whether only inside a function."""
    inside = {
        node
        for part in ast.walk(tree)
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(part)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports must be absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield (whole if whole in OURS else str(node.module)), node in inside


def is_allowed(name: str) -> bool:
    """Whether the guest side may import this module; tomli is tomllib before Python 3.11."""
    return name.partition(".")[0] in {"tomli", *sys.stdlib_module_names} or any(
        name == module or name.startswith(f"{module}.") for module in OURS
    )


def read(path: Path) -> ast.Module:
    """Parse a source file."""
    return ast.parse(path.read_text("utf-8"), str(path))


# --- The guest side -------------------------------------------------------------------------------


def test_the_search_finds_something() -> None:
    """It finds the files, and the names in the file that may have them."""
    assert {"client.py", "aio.py", "plan.py", "hooks.py"} <= {path.name for path in FILES}
    names = " ".join(platform_names(read(SYSTEM)))
    for name in ("fcntl", "msvcrt", "os.killpg", "signal.SIGKILL", "creationflags="):
        assert name in names


@pytest.mark.parametrize("path", [path for path in FILES if path != SYSTEM], ids=lambda p: p.name)
def test_platform_names_are_in_one_file(path: Path) -> None:
    """No other file uses them."""
    assert platform_names(read(path)) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_guest_side_needs_only_python(path: Path) -> None:
    """It imports the standard library, itself, and three small modules of `core`."""
    allowed = ONLY_INSIDE_FUNCTIONS.get(path, set())
    forbidden = [
        name
        for name, inside in imported(read(path))
        if not is_allowed(name) and not (inside and name.partition(".")[0] in allowed)
    ]
    assert forbidden == []


# --- In a fresh interpreter -----------------------------------------------------------------------

LOADED = """
import json, sys
before = set(sys.modules)
{statement}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded(statement: str) -> list[str]:
    """Return the modules that a statement loads in a fresh interpreter."""
    code = LOADED.format(statement=statement)
    environment = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    names: list[str] = json.loads(run_python(code, env=environment, check=True).stdout)
    return names


def foreign_modules(names: list[str]) -> list[str]:
    """Return modules outside the standard library and the guest side."""
    parents = {"fairwarning", "fairwarning.core"}
    return [name for name in names if name not in parents and not is_allowed(name)]


def test_importing_fairwarning_loads_hardly_anything() -> None:
    """A program that imports the package loads only what it uses."""
    names = loaded("import fairwarning")
    assert foreign_modules(names) == []
    assert [name for name in names if name.startswith("fairwarning")] == ["fairwarning"]


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    "statement",
    [
        "from fairwarning import ScheduledEvents",
        "from fairwarning import *",
        "import fairwarning.guest.agent.hooks, fairwarning.guest.agent.journal",
    ],
)
def test_the_guest_side_loads_only_what_python_has(statement: str) -> None:
    """The client and the agent run with nothing but Python installed."""
    assert foreign_modules(loaded(statement)) == []


# --- Differences ----------------------------------------------------------------------------------


def test_a_lock_is_held_by_one_process(tmp_path: Path) -> None:
    """Another process cannot take it until it is released."""
    code = f"""
import sys
from pathlib import Path
from fairwarning.guest.agent.system import lock
sys.exit(lock(Path({str(tmp_path / "lock")!r})) is None)
"""
    held = system.lock(tmp_path / "lock")
    assert held is not None
    assert run_python(code).returncode == 1
    os.close(held)
    assert run_python(code).returncode == 0
    with pytest.raises(FileNotFoundError):
        system.lock(tmp_path / "missing" / "lock")


@pytest.mark.parametrize(
    ("platform", "state", "config"),
    [
        ("linux", "/var/lib/fairwarning-agent", "/etc/fairwarning/agent.toml"),
        (
            "darwin",
            "/Users/me/Library/Application Support/Fairwarning/agent",
            "/Users/me/Library/Application Support/Fairwarning/agent.toml",
        ),
        ("win32", "D:/Data/Fairwarning/agent", "D:/Data/Fairwarning/agent.toml"),
    ],
)
def test_default_paths_of_each_system(
    monkeypatch: pytest.MonkeyPatch, platform: str, state: str, config: str
) -> None:
    """They follow the conventions of the system."""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", "/Users/me")
    monkeypatch.setenv("PROGRAMDATA", "D:/Data")
    assert system.state_folder().as_posix() == state
    assert system.config_file().as_posix() == config
