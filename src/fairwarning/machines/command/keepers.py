"""Starts keeper processes, and finds out why one has ended without a result.

Starting a process blocks the caller, longer on a busy system. Forking keepers from a small process,
their parent, keeps the service free to answer polls.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fairwarning.machines.command import keeper
from fairwarning.machines.command.keeper import CommandRun
from fairwarning.machines.command.program import BOOT_ID_VARIABLE, ProgramExit, output_lines

# Environment variables that programs get: those they need to find their tools, their user and their
# agents, and the one by which a keeper knows the boot. No others, as the service's environment may
# hold a database password.
PASSED_ENVIRONMENT = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "LIBVIRT_DEFAULT_URI", BOOT_ID_VARIABLE),
)
_CHUNK_BYTES = 64 * 1024
_ANSWER_SECONDS = 15.0  # after the limit and the grace: a program that is killed, a slow disk

# The folder of this installation. Programs must not inherit the PYTHONPATH of the service, so the
# keeper gets the folder as an argument, and nothing else of the module search path.
_INSTALLATION = str(Path(__file__).absolute().parents[len(keeper.__name__.split(".")) - 1])
_SILENT = "the keeper process did not answer in time; was it stopped, or does its disk hang?"
_KILLED = "the keeper process was killed; is this system out of memory?"
_MAIN = f"import sys; sys.path.append(sys.argv[1]); from {keeper.__name__} import main; main()"


class KeeperLost(Exception):
    """A keeper ended without a result."""


class KeeperProcesses:
    """The keepers of one driver."""

    def __init__(self) -> None:
        self._parent: _KeeperParent | None = None

    @property
    def parent(self) -> int:
        """The process id of the keepers' parent; 0 if it was not started yet."""
        return self._parent.process if self._parent else 0

    async def run(self, run: CommandRun) -> bytes:
        """Run a keeper and return its answer. Raises KeeperLost, and OSError if none can start."""
        reader, writer = os.pipe()
        try:
            parent = self._send(run, writer)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        try:
            async with asyncio.timeout(run.left_seconds + run.grace_seconds + _ANSWER_SECONDS):
                answer = await _read(reader)
        except TimeoutError as error:
            parent.give_up()
            raise KeeperLost(_SILENT) from error
        finally:
            os.close(reader)
        if not answer.endswith(b"\n"):  # it ended before it had answered
            raise KeeperLost(parent.ending() or _KILLED)
        return answer

    def close(self) -> None:
        """End the keepers' parent; running keepers continue."""
        if self._parent is not None:
            self._parent.close()
            self._parent = None

    def _send(self, run: CommandRun, writer: int) -> "_KeeperParent":
        if self._parent is None or self._parent.ending():
            self.close()
            self._parent = _KeeperParent()
        with suppress(BrokenPipeError, ConnectionResetError):  # it has ended: so will the answer
            self._parent.send(json.dumps(run._asdict()).encode(), writer)
        return self._parent


class _KeeperParent:
    """The process that keepers are forked from; nothing is lost if it is killed."""

    def __init__(self) -> None:
        self._ending = ""
        self._is_silent = False
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors, errors = os.pipe()
        os.set_blocking(self._errors, False)
        try:
            self.process = _spawn(theirs.fileno(), errors)
        except BaseException:
            self._connection.close()
            os.close(self._errors)
            raise
        finally:
            theirs.close()
            os.close(errors)

    def send(self, message: bytes, writer: int) -> None:
        """Request a keeper that writes its answer to this pipe."""
        socket.send_fds(self._connection, [message], [writer])

    def ending(self) -> str:
        """Return how the process has ended; empty if it is running."""
        if not self._ending and self._is_disconnected():
            ended = ProgramExit(self._wait(), output_lines(self._read_errors()))
            self._ending = f"the keeper process cannot run ({ended.failure()})"
            if ended.output:
                self._ending += f"; check the installation of fairwarning in {_INSTALLATION}"
            if self._is_silent:
                self._ending = _SILENT
        return self._ending

    def give_up(self) -> None:
        """Kill the process, as it did not answer; the next impact starts another one."""
        if not self.ending():
            self._is_silent = True
            self._kill()

    def close(self) -> None:
        """End the process and release everything."""
        if not self._ending:
            self._kill()
            self._wait()
        self._connection.close()
        os.close(self._errors)

    def _is_disconnected(self) -> bool:
        """Return whether the process has closed the connection, which it only does at its end."""
        try:
            return not self._connection.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _kill(self) -> None:
        with suppress(OSError):
            os.kill(self.process, signal.SIGKILL)

    def _wait(self) -> int:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        except ChildProcessError:  # the service ignores SIGCHLD: nobody knows the exit code
            return 1

    def _read_errors(self) -> bytes:
        with suppress(BlockingIOError):
            return os.read(self._errors, _CHUNK_BYTES)
        return b""


def _spawn(connection: int, errors: int) -> int:
    return os.posix_spawn(  # asyncio would kill its child processes at exit
        sys.executable,
        [sys.executable, "-I", "-S", "-c", _MAIN, _INSTALLATION],
        _environment(),
        file_actions=[
            (os.POSIX_SPAWN_DUP2, connection, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, errors, 2),
        ],
        setsigdef=[signal.SIGPIPE],
    )


async def _read(pipe: int) -> bytes:
    """Read a pipe to its end. An asyncio transport would close the pipe at its own time."""
    loop = asyncio.get_running_loop()
    data, ended = bytearray(), loop.create_future()

    def read_chunk() -> None:
        chunk = os.read(pipe, _CHUNK_BYTES)
        data.extend(chunk)
        if not chunk and not ended.done():
            ended.set_result(None)

    loop.add_reader(pipe, read_chunk)
    try:
        await ended
    finally:
        loop.remove_reader(pipe)
    return bytes(data)


def _environment() -> Mapping[str, str]:
    passed = {name: os.environ[name] for name in PASSED_ENVIRONMENT if name in os.environ}
    return {"PATH": os.defpath, **passed}
