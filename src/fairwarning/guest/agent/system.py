"""What differs between Linux, macOS and Windows. The rest of the guest side knows no difference.

tests/guest/test_portable.py looks for the names of one system anywhere else.
"""

import os
import signal
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

_TASKKILL_SECONDS = 5.0  # it takes a fraction of one; we do not hang if it does

# --- Programs -------------------------------------------------------------------------------------


class ProcessGroup:
    """A program and whatever it starts, in a group of their own.

    What leaves the group on purpose (`setsid`, a service manager) is on its own. Windows knows the
    family of a program only for as long as the program runs.
    """

    def __init__(
        self, command: Sequence[str], *, stdin: int, output: int, environment: Mapping[str, str]
    ) -> None:
        self._freeing = threading.Lock()  # a signal must not meet another program of that number
        self._program = subprocess.Popen(  # noqa: S603  (the administrator's own command)
            command,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=sys.platform != "win32",
            creationflags=_CREATION_FLAGS,
        )

    def wait(self) -> int:
        """The program's exit code once it has ended; whatever it leaves behind is killed."""
        _await_end(self._program)
        with self._freeing:
            _sweep(self._program)
            return self._program.wait()

    def terminate(self) -> None:
        """Ask all of them to end."""
        with self._freeing:
            if self._program.returncode is None:
                _terminate(self._program)

    def kill(self) -> None:
        """End all of them."""
        with self._freeing:
            if self._program.returncode is None:
                _kill(self._program)


if sys.platform == "win32":
    _CREATION_FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP

    def _await_end(program: subprocess.Popen[bytes]) -> None:
        program.wait()

    def _terminate(program: subprocess.Popen[bytes]) -> None:
        with suppress(OSError):  # a service has no console to send this through
            program.send_signal(signal.CTRL_BREAK_EVENT)

    def _kill(program: subprocess.Popen[bytes]) -> None:
        taskkill = Path(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(  # noqa: S603  (with nothing in it but a number)
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

    def _sweep(program: subprocess.Popen[bytes]) -> None:
        """Its children can no longer be found."""

else:
    _CREATION_FLAGS = 0

    def _await_end(program: subprocess.Popen[bytes]) -> None:
        if sys.platform == "linux":
            with suppress(ChildProcessError):  # whoever ignores SIGCHLD has no children to wait for
                # Not yet reaped, it keeps its number, so that `_sweep` can only hit its group.
                os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
        else:
            program.wait()

    def _terminate(program: subprocess.Popen[bytes]) -> None:
        _signal(program, signal.SIGTERM)

    def _kill(program: subprocess.Popen[bytes]) -> None:
        _signal(program, signal.SIGKILL)

    def _sweep(program: subprocess.Popen[bytes]) -> None:
        _signal(program, signal.SIGKILL)

    def _signal(program: subprocess.Popen[bytes], number: signal.Signals) -> None:
        with suppress(OSError):  # none of the group is left, or all are another user's
            os.killpg(program.pid, number)


def make_blocking(descriptor: int) -> None:
    """Undo what a program may have done to the end of a pipe that we share with it."""
    if sys.platform != "win32":
        os.set_blocking(descriptor, True)


# --- Signals --------------------------------------------------------------------------------------

ENDING: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
"""The signals that ask the agent itself to end."""

if sys.platform == "win32":
    ENDING = (*ENDING, signal.SIGBREAK)


# --- Files ----------------------------------------------------------------------------------------


def lock(path: Path) -> int | None:
    """The descriptor of a file that is this process's alone until closed; None: it is another's."""
    held = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if sys.platform == "win32":
            msvcrt.locking(held, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(held)
        return None
    except BaseException:
        os.close(held)
        raise
    return held


def sync_folder(folder: Path) -> None:
    """Make durable which files a folder has. Windows sees to it by itself."""
    if sys.platform != "win32":
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def state_folder() -> Path:
    """Where the agent keeps its journal, unless it is told otherwise."""
    if sys.platform == "win32":
        return _program_data() / "agent"
    elif sys.platform == "darwin":  # noqa: RET505  (mypy looks at one system at a time)
        return _library() / "agent"
    else:
        return Path("/var/lib/fairwarning-agent")


def config_file() -> Path:
    """Where the agent's configuration is, unless it is told otherwise."""
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
