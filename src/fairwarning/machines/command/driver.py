"""The command driver: a program of the operator's own is run for each impact.

Who runs it is a process of its own (`keeper.py`), so that neither the program nor the memory
of how it ended depends on the service. Here stands whose turn it is, and who hears of it.
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

from fairwarning.core import limits
from fairwarning.core.errors import Refused
from fairwarning.core.model import Impact
from fairwarning.machines.command import keeper
from fairwarning.machines.command.keeper import CommandRun
from fairwarning.machines.command.record import ImpactResult
from fairwarning.machines.driver import Report

AT_ONCE = 32  # programs; the other impacts wait
TIMEOUT_SECONDS = 600.0
GRACE_SECONDS = 10.0  # between asking a program to end and ending it
# Of our environment: what programs need to find their tools, their user and their agents. No more,
# as ours may hold the password of a database.
PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "LIBVIRT_DEFAULT_URI"),
)
_PAUSES_SECONDS = (0.0, 0.1, 1.0, 5.0)  # before each keeper, if the one before was killed
_STOPPED_SECONDS = 10.0  # in which a service that is stopped has closed its driver
_CHUNK_BYTES = 64 * 1024
_NO_PROGRAM = "name a program that this user may run, by its whole path or one found on PATH"

log = logging.getLogger(__name__)


class CommandDriver:
    """Runs `program` for each impact; it was carried out if the program exits with 0.

    It can tell what it carried out: `state` holds a record of each impact. For what was done from
    another host, `check` is asked first if there is one: it exits with 0 if the impact was carried
    out already, 1 if not. As long as it cannot tell, nothing is run.
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
        """`state` is a folder of its own; `now` the clock that impacts have their deadlines by."""
        self._program = _runnable("program", program)
        self._check = _runnable("check", check) if check else []
        self._timeout_seconds = timeout_seconds
        self._grace_seconds = grace_seconds
        self._state = state.absolute()
        self._now = now
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._keepers = _Keepers()
        self._closing = False

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Run the program when it is the impact's turn: those of one machine keep their order."""
        if self._closing:
            return  # it is handed over again to the service that comes next
        task = asyncio.create_task(self._see_through(impact, report))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Hear of nothing any more. What runs lives on, and the next service hears of its end.

        To end a program halfway would leave a machine in a state that nobody asked for. What has
        not begun yet does not begin.
        """
        self._closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._keepers.close()

    async def _see_through(self, impact: Impact, report: Report) -> None:
        turn = self._turns.setdefault((impact.scope, impact.machine), asyncio.Lock())
        async with turn, self._places:
            ending = await self._ending(impact)
        if ending.failed:
            said = "".join(f"\n  | {line}" for line in ending.said)
            log.warning("impact %s (%s) failed: %s%s", impact.id, impact.kind, ending.failed, said)
        report(impact, ending.failed)

    async def _ending(self, impact: Impact) -> ImpactResult:
        for pause in _PAUSES_SECONDS:
            await asyncio.sleep(pause)
            order = self._order(impact)
            if order.left_seconds <= 0:
                return ImpactResult("it was not begun: the service has given it up")
            try:
                said = await self._keepers.see_through(order)
            except OSError as error:
                return ImpactResult(
                    f"it was not begun: no process can be started: {error.strerror}"
                )
            if said:
                ending = ImpactResult(**json.loads(said))
                if ending.stopped:  # so is the service, most likely; the next one begins anew
                    await asyncio.sleep(_STOPPED_SECONDS)
                return ending
            log.warning("who ran the program of impact %s was killed", impact.id)
        return ImpactResult(
            "who runs the program is killed each time; is this system out of memory?"
        )

    def _order(self, impact: Impact) -> CommandRun:
        name = sha256(impact.id.encode()).hexdigest()
        left: float = limits.IMPACT_LIMIT_SECONDS
        if impact.deadline is not None:
            left = impact.deadline - self._now()
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
        what = f"{name} {command[0]!r} cannot be run" if command else f"{name} is empty"
        raise Refused("NoProgram", f"{what}; {_NO_PROGRAM}")
    return list(command)


class _Keepers:
    """The way to the process that keepers are forked from. It has nothing to lose if it is killed.

    To start a process holds up the one that does it, longer the busier the system is, and this one
    has polls to answer.
    """

    def __init__(self) -> None:
        self._process = 0
        self._connection: socket.socket | None = None

    async def see_through(self, order: CommandRun) -> bytes:
        """What a keeper says at its end; nothing if it was killed."""
        hearing, saying = os.pipe()
        try:
            self._send(order, saying)
        except BaseException:
            os.close(hearing)
            raise
        finally:
            os.close(saying)
        try:
            return await _read(hearing)
        finally:
            os.close(hearing)

    def close(self) -> None:
        """Keepers that are at work go on."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            with suppress(OSError):  # whoever ignores SIGCHLD has no children to wait for
                os.kill(self._process, signal.SIGKILL)
                os.waitpid(self._process, 0)

    def _send(self, order: CommandRun, saying: int) -> None:
        message = json.dumps(order._asdict()).encode()
        if self._connection is not None:
            try:
                socket.send_fds(self._connection, [message], [saying])
            except OSError:
                self.close()  # it was killed
            else:
                return
        self._connection = self._start()
        socket.send_fds(self._connection, [message], [saying])

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = os.posix_spawn(  # asyncio would kill what it started at its end
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
    """All of it. The loop's own transports would close the pipe at a time of their choice."""
    loop = asyncio.get_running_loop()
    said, ended = bytearray(), loop.create_future()

    def hear() -> None:
        chunk = os.read(pipe, _CHUNK_BYTES)
        said.extend(chunk)
        if not chunk and not ended.done():
            ended.set_result(None)

    loop.add_reader(pipe, hear)
    try:
        await ended
    finally:
        loop.remove_reader(pipe)
    return bytes(said)


def _environment() -> Mapping[str, str]:
    ours = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {"PATH": os.defpath, **ours}
