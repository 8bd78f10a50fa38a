"""The differences between Linux, macOS and Windows. All other guest code is portable.

tests/guest/test_portable.py searches all other guest code for names of a single system.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_TASKKILL_SECONDS = 5.0  # it usually takes a fraction of a second
_PS_SECONDS = 5.0  # the same
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_BOOT_ID_VARIABLE = "FAIRWARNING_BOOT_ID"  # for a sandbox that hides the file

# --- Programs -------------------------------------------------------------------------------------


class ProcessGroup:
    """A program and its child processes, in their own process group.

    Processes that leave the group on purpose (`setsid`, a service manager) are not tracked. Windows
    knows the children of a program only while the program runs.
    """

    def __init__(
        self, command: Sequence[str], *, stdin: int, output: int, environment: Mapping[str, str]
    ) -> None:
        self._reap_lock = threading.Lock()  # no signal after reaping: the PID may be reused
        self._program = subprocess.Popen(  # noqa: S603  (the administrator's own command)
            command,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=sys.platform != "win32",
            creationflags=_CREATION_FLAGS,
        )
        self.process_id = self._program.pid

    def wait(self) -> int:
        """Wait for the program, kill what remains of its group, and return its exit code."""
        _wait_exit(self._program)
        with self._reap_lock:
            _kill_leftovers(self._program)
            return self._program.wait()

    def terminate(self) -> None:
        """Ask the whole group to exit."""
        with self._reap_lock:
            if self._program.returncode is None:
                _terminate(self._program)

    def kill(self) -> None:
        """Kill the whole group."""
        with self._reap_lock:
            if self._program.returncode is None:
                _kill(self._program)


if sys.platform == "win32":
    _CREATION_FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP

    def _wait_exit(program: subprocess.Popen[bytes]) -> None:
        program.wait()

    def _terminate(program: subprocess.Popen[bytes]) -> None:
        with suppress(OSError):  # a service has no console for this signal
            program.send_signal(signal.CTRL_BREAK_EVENT)

    def _kill(program: subprocess.Popen[bytes]) -> None:
        taskkill = Path(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(  # noqa: S603  (the only variable part is a number)
                [str(taskkill), "/T", "/F", "/PID", str(program.pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                creationflags=subprocess.CREATE_NO_WINDOW,
                timeout=_TASKKILL_SECONDS,
                check=False,
            )
        with suppress(OSError):
            program.kill()

    def _kill_leftovers(program: subprocess.Popen[bytes]) -> None:
        """Do nothing: the children can no longer be found."""

else:
    _CREATION_FLAGS = 0

    def _wait_exit(program: subprocess.Popen[bytes]) -> None:
        if sys.platform == "linux" and hasattr(os, "waitid"):  # which PyPy lacks
            with suppress(ChildProcessError):  # with SIGCHLD ignored there is no child to wait for
                # An unreaped program keeps its PID, so `_kill_leftovers` can only hit its group.
                os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
        else:
            program.wait()

    def _terminate(program: subprocess.Popen[bytes]) -> None:
        _signal(program, signal.SIGTERM)

    def _kill(program: subprocess.Popen[bytes]) -> None:
        _signal(program, signal.SIGKILL)

    _kill_leftovers = _kill

    def _signal(program: subprocess.Popen[bytes], number: signal.Signals) -> None:
        with suppress(OSError):  # the group is empty, or belongs to another user
            os.killpg(program.pid, number)


# --- Programs of an earlier agent -----------------------------------------------------------------


def boot_id() -> str:
    """Return a text that differs after each boot of the machine; empty if it is unknown."""
    return os.environ.get(_BOOT_ID_VARIABLE, "") or _read_text(_BOOT_ID)


def process_mark(process: int) -> str:
    """Return a text that no later process with this id has; empty if it has ended or on Windows."""
    if sys.platform == "linux":
        status = _process_status(process)
        return f"{boot_id()} {status[1]}" if status else ""
    elif sys.platform == "win32":  # noqa: RET505  (mypy checks one platform at a time)
        return ""
    else:
        command = ["/bin/ps", "-o", "lstart=", "-p", str(process)]
        environment = {"LC_ALL": "C", "TZ": "UTC"}
        with suppress(OSError, subprocess.TimeoutExpired):
            return subprocess.run(  # noqa: S603  (the only variable part is a number)
                command,
                capture_output=True,
                text=True,
                env=environment,
                timeout=_PS_SECONDS,
                check=False,
            ).stdout.strip()
        return ""


def is_same_group(group: int, mark: str, variable: str) -> bool:
    """Whether a process group is surely the one whose leader had this mark.

    Without its leader, Linux knows it by an environment variable `NAME=VALUE` of its processes.
    """
    if not mark or group <= 1:
        return False
    if current := process_mark(group):
        return current == mark
    return sys.platform == "linux" and _has_member(group, mark.rpartition(" ")[0], variable)


def end_group(group: int, *, kill: bool = False) -> None:
    """Ask a process group of an earlier agent to exit, or kill it."""
    if sys.platform != "win32":
        with suppress(OSError):
            os.killpg(group, signal.SIGKILL if kill else signal.SIGTERM)


def _has_member(group: int, boot: str, variable: str) -> bool:
    """Whether a process of this group and boot has an environment variable, on Linux."""
    if boot != boot_id():
        return False
    ids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    statuses = ((process, _process_status(process)) for process in ids)
    members = [process for process, status in statuses if status and status[0] == group]
    return any(variable in _read_text(f"/proc/{member}/environ").split("\0") for member in members)


def _process_status(process: int) -> tuple[int, int] | None:
    """Return the group and start time of a process on Linux; None if it has ended."""
    # The second field, the name in parentheses, may contain anything.
    fields = _read_text(f"/proc/{process}/stat").rpartition(")")[2].split()
    if not fields or fields[0] in {"Z", "X"}:
        return None
    return int(fields[2]), int(fields[19])


def _read_text(path: str) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def make_blocking(descriptor: int) -> None:
    """Undo a program's `O_NONBLOCK` on a pipe that we share with it."""
    if sys.platform != "win32":
        os.set_blocking(descriptor, True)


# --- Signals --------------------------------------------------------------------------------------

STOP_SIGNALS: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
"""The signals that stop the agent."""

RELOAD_SIGNALS: tuple[signal.Signals, ...] = ()
"""The signals that make the agent read its configuration again."""

if sys.platform == "win32":
    STOP_SIGNALS = (*STOP_SIGNALS, signal.SIGBREAK)
else:
    RELOAD_SIGNALS = (signal.SIGHUP,)


def reap_as_init() -> None:
    """As process 1 of a container, stay as its init process, and return in a child.

    Process 1 is the parent of every orphan. The child, the agent, waits only for its own hooks.
    """
    if sys.platform == "win32" or os.getpid() != 1:
        return
    forwarded = (*STOP_SIGNALS, signal.SIGHUP, signal.SIGUSR1)
    signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)  # process 1 loses what it does not handle
    child = os.fork()
    if child != 0:
        for number in forwarded:
            signal.signal(number, lambda number, _: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, forwarded)
    while child != 0:
        process, status = os.wait()
        if process == child:
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            os._exit(code)


# --- Files ----------------------------------------------------------------------------------------


def lock(path: Path) -> int | None:
    """Lock a file until its descriptor is closed; None if another process holds the lock."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_file(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Write a file that only the agent's user can read; with `sync`, durably."""
    file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        while content:
            content = content[os.write(file, content) :]
        if sync:
            os.fsync(file)
    finally:
        os.close(file)


def find_writable(path: Path) -> Path | None:
    """Return this path or a folder above it that every user can write; Windows has no such mode.

    In a folder with the sticky bit, as /tmp, users replace only files of their own.
    """
    if sys.platform == "win32":
        return None
    for place in (path.resolve(), *path.resolve().parents):
        with suppress(OSError):
            mode = place.stat().st_mode
            is_sticky = place != path.resolve() and mode & stat.S_ISVTX
            if mode & stat.S_IWOTH and not is_sticky:
                return place
    return None


def is_readable_by_all(path: Path) -> bool:
    """Whether every user can read a file; on Windows this is not known."""
    return sys.platform != "win32" and bool(path.stat().st_mode & stat.S_IROTH)


def sync_folder(folder: Path) -> None:
    """Make a folder's directory entries durable; Windows does this by itself."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def state_folder() -> Path:
    """Return the default folder of the agent's journal."""
    if sys.platform == "win32":
        return _program_data() / "agent"
    elif sys.platform == "darwin":  # noqa: RET505  (mypy checks one platform at a time)
        return _library() / "agent"
    else:
        return Path("/var/lib/fairwarning-agent")


def config_file() -> Path:
    """Return the default path of the agent's configuration."""
    if sys.platform == "win32":
        return _program_data() / "agent.toml"
    elif sys.platform == "darwin":  # noqa: RET505  (as above)
        return _library() / "agent.toml"
    else:
        return Path("/etc/fairwarning/agent.toml")


def _program_data() -> Path:
    return Path(os.environ.get("PROGRAMDATA", r"C:\ProgramData"), "Fairwarning")


def _library() -> Path:
    return Path.home() / "Library" / "Application Support" / "Fairwarning"
