"""The command driver: runs a program that the operator provides for each impact.

A keeper process (`keeper.py`) runs the program, so that neither the program nor the record of its
result depends on the service. This module schedules impacts and reports their results.
"""

import asyncio
import json
import logging
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from weakref import WeakValueDictionary

from fairwarning.core.errors import Refused
from fairwarning.core.model import Impact
from fairwarning.machines.command import keeper
from fairwarning.machines.command.keeper import CommandRun
from fairwarning.machines.command.record import ImpactResult
from fairwarning.machines.driver import Report

MAX_CONCURRENT = 32  # programs; further impacts wait
TIMEOUT_SECONDS = 600.0
GRACE_SECONDS = 10.0  # between SIGTERM and SIGKILL
# Environment variables that programs get: those they need to find their tools, their user and their
# agents. No others, as the service's environment may hold a database password.
PASSED_ENVIRONMENT = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "LIBVIRT_DEFAULT_URI"),
)
_PAUSES_SECONDS = (0.0, 0.1, 1.0, 5.0)  # before each attempt, if the last keeper was killed
_STOPPED_SECONDS = 10.0  # within which a stopping service has closed its driver
_CHUNK_BYTES = 64 * 1024
_NO_PROGRAM = "name a program that this user may run, by its full path or one found on PATH"

log = logging.getLogger(__name__)


class CommandDriver:
    """Runs `program` for each impact; the impact succeeded if the program exits with 0.

    `state` holds a record of each impact, so that none is repeated. To detect impacts that were
    executed from another host, `check` runs first if given: it exits with 0 if the impact was
    already executed and with 1 if not. While it cannot tell, the driver does not run the program.
    """

    def __init__(
        self,
        program: Sequence[str],
        *,
        check: Sequence[str] = (),
        timeout_seconds: float = TIMEOUT_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        state: Path,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`state` is a folder used by nothing else; `now` is the clock of the impacts' limits."""
        self._program = _runnable("program", program)
        self._check = _runnable("check", check) if check else []
        self._timeout_seconds = timeout_seconds
        self._grace_seconds = grace_seconds
        self._state = state.absolute()
        self._now = now
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._tasks: set[asyncio.Task[None]] = set()
        self._keepers = _KeeperProcesses()
        self._closing = False

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Queue the impact: the impacts of one machine run one at a time and in order."""
        if self._closing:
            return  # the next service hands it over again
        task = asyncio.create_task(self._execute(impact, report, self._now()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop reporting. Running programs continue, and the next service reports their results.

        Ending a program halfway would leave its machine in an undefined state. Impacts that have
        not started do not start.
        """
        self._closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._keepers.close()

    async def _execute(self, impact: Impact, report: Report, received_at: float) -> None:
        lock = self._locks.setdefault((impact.scope, impact.machine), asyncio.Lock())
        async with lock, self._slots:
            result = await self._result(impact, received_at)
        if result.error:
            output = "".join(f"\n  | {line}" for line in result.output)
            log.warning("impact %s (%s) failed: %s%s", impact.id, impact.kind, result.error, output)
        report(impact, result.error)

    async def _result(self, impact: Impact, received_at: float) -> ImpactResult:
        for pause in _PAUSES_SECONDS:
            await asyncio.sleep(pause)
            run = self._command_run(impact, received_at)
            if run.left_seconds <= 0:
                return ImpactResult("not started: the service has given the impact up")
            try:
                answer = await self._keepers.run(run)
            except OSError as error:
                return ImpactResult(f"not started: cannot start a process: {error.strerror}")
            if answer:
                result = ImpactResult(**json.loads(answer))
                if result.stopped:  # the service probably stops too; the next one starts anew
                    await asyncio.sleep(_STOPPED_SECONDS)
                return result
            log.warning("the keeper process of impact %s was killed; trying again", impact.id)
        return ImpactResult(
            "the keeper process was killed on every attempt; is this system out of memory?"
        )

    def _command_run(self, impact: Impact, received_at: float) -> CommandRun:
        name = sha256(impact.id.encode()).hexdigest()
        left = received_at + impact.limit_seconds - self._now()
        return CommandRun(
            record=str(self._state / name[:2] / name[2:]),
            impact={
                "id": impact.id,
                "kind": str(impact.kind),
                "scope": impact.scope,
                "machine": impact.machine,
                "event": impact.event,
                "operation": impact.operation,
                "duration_seconds": impact.duration_seconds,
            },
            program=self._program,
            check=self._check,
            timeout_seconds=self._timeout_seconds,
            grace_seconds=self._grace_seconds,
            left_seconds=left,
        )


def _runnable(name: str, command: Sequence[str]) -> list[str]:
    if not command or shutil.which(command[0]) is None:
        problem = f"{name} {command[0]!r} cannot be run" if command else f"{name} is empty"
        raise Refused("NoProgram", f"{problem}; {_NO_PROGRAM}")
    return list(command)


class _KeeperProcesses:
    """The process that keepers are forked from; nothing is lost if it is killed.

    Starting a process blocks the caller, longer on a busy system. Forking from a small process
    keeps the service free to answer polls.
    """

    def __init__(self) -> None:
        self._process = 0
        self._connection: socket.socket | None = None

    async def run(self, run: CommandRun) -> bytes:
        """Run a keeper and return its answer; empty if it was killed."""
        reader, writer = os.pipe()
        try:
            self._send(run, writer)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        try:
            return await _read(reader)
        finally:
            os.close(reader)

    def close(self) -> None:
        """End the process; running keepers continue."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            with suppress(OSError):  # a process that ignores SIGCHLD has no children to wait for
                os.kill(self._process, signal.SIGKILL)
                os.waitpid(self._process, 0)

    def _send(self, run: CommandRun, writer: int) -> None:
        message = json.dumps(run._asdict()).encode()
        if self._connection is not None:
            try:
                socket.send_fds(self._connection, [message], [writer])
            except OSError:
                self.close()  # the process was killed
            else:
                return
        self._connection = self._start()
        socket.send_fds(self._connection, [message], [writer])

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = os.posix_spawn(  # asyncio would kill its child processes at exit
                sys.executable,
                [sys.executable, "-P", "-m", keeper.__name__],
                _environment(),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                ],
                setsigdef=[signal.SIGPIPE],
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return ours


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
