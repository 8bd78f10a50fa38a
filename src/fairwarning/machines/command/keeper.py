"""Sees one impact through to its end, whatever becomes of the service.

A keeper is a process of its own. A service may be killed at any moment, and a program that it ran
itself would then have nobody who reads what it says, keeps its deadline and hears how it ended.
The driver starts this module once, and each keeper is a fork of it: quick, small, and no matter how
large the service is.
"""

import json
import math
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from fairwarning.machines.command import program
from fairwarning.machines.command.program import ProgramExit, ProgramNotStarted, birth
from fairwarning.machines.command.record import CommandRecord, ImpactResult, tidy

CHECK_SECONDS = 60.0  # for one answer of `check`
_FIRST_PAUSE_SECONDS = 1.0  # before it is asked again; then twice as long, and so on
_LONGEST_PAUSE_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_SETTLE_SECONDS = 0.1  # between the first and the last of a group of processes that is signalled
_DONE, _NOT_DONE = 0, 1  # what `check` exits with
_ORDERS, _SERVICE, _LOG = 0, 1, 2  # descriptors; a keeper says on the second how it went
_ORDER_BYTES = 256 * 1024

_stopped: list[int] = []  # the signals that asked this process to end


class CommandRun(NamedTuple):
    """What to see through."""

    record: str
    impact: dict[str, Any]  # as JSON has it
    program: Sequence[str]
    check: Sequence[str]
    timeout_seconds: float
    grace_seconds: float
    left_seconds: float  # until the service gives it up; after that nothing happens (IL5)


class ImpactNotDone(Exception):
    """Not carried out, or nobody can tell. Whoever is handed the impact next may try again."""


class KeeperStopped(ImpactNotDone):
    """Somebody asked us to end, and probably the service and the program as well."""


class Keeper:
    """Carries one order out."""

    def __init__(self, order: CommandRun) -> None:
        self._order = order
        self._ends = time.monotonic() + order.left_seconds
        wait = partial(self._go_on, self._ends, "whoever had it before is still at it")
        self._record = CommandRecord(Path(order.record), wait)
        self._repeat = self._record.begun

    def attend(self) -> ImpactResult:
        """Have it carried out, unless it was; how it ended, now or at an earlier time."""
        order, record = self._order, self._record
        if record.ended is not None:
            return record.ended
        if record.program is not None and not self._outlive(*record.program):
            return record.end(ImpactResult("took too long and was ended"))
        if order.check and self._is_done():
            return record.end(ImpactResult(""))
        self._go_on(self._ends, "it was not begun")
        record.begin(order.impact)
        ended = self._run(order.program, order.timeout_seconds, self._ends, record.note_program)
        failed = ended.failure()
        if failed and _is_stopped():
            raise KeeperStopped(f"was stopped from outside: {failed}")
        return record.end(ImpactResult(failed, ended.said))

    def _outlive(self, process: int, born: str) -> bool:
        """Wait for a program that has lost its keeper; whether it ended in time, somehow."""
        ends = min(self._ends, time.monotonic() + self._order.timeout_seconds)
        for ending in (signal.SIGTERM, signal.SIGKILL):
            while time.monotonic() < ends:
                if not born or birth(process) != born:
                    return ending is signal.SIGTERM
                self._go_on(math.inf, "the program that was begun before is still running")
                time.sleep(_LOOK_SECONDS)
            with suppress(OSError):
                os.killpg(process, ending)
            ends = time.monotonic() + self._order.grace_seconds
        return False

    def _is_done(self) -> bool:
        """What `check` says. While it cannot tell, nothing is run: once, or not at all (IL5)."""
        ends = min(self._ends, time.monotonic() + self._order.timeout_seconds)
        pause = _FIRST_PAUSE_SECONDS
        while True:
            ended = self._run(self._order.check, CHECK_SECONDS, ends)
            if ended.code in {_DONE, _NOT_DONE}:
                return ended.code == _DONE
            unclear = f"check cannot tell whether it was carried out already ({ended.failure()})"
            self._go_on(ends - pause, unclear)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _run(
        self,
        command: Sequence[str],
        seconds: float,
        ends: float,
        born: Callable[[], None] | None = None,
    ) -> ProgramExit:
        told = {**self._order.impact, "repeat": self._repeat}
        with _nameless(Path(f"{self._order.record}.stdin"), told) as stdin:
            return program.run(
                command,
                stdin=stdin,
                environment={**os.environ, **_variables(told)},
                seconds=min(seconds, ends - time.monotonic()),
                grace_seconds=self._order.grace_seconds,
                born=born,
            )

    def _go_on(self, ends: float, otherwise: str) -> None:
        """Return if there is time, and somebody who waits for us."""
        if time.monotonic() >= ends:
            raise ImpactNotDone(f"{otherwise}, and there is no time left")
        if _stopped or _alone():
            raise KeeperStopped(f"{otherwise}, and the service has ended")


def _is_stopped() -> bool:
    """Whether what ended the program was meant for us too, as when systemd stops a service."""
    time.sleep(_SETTLE_SECONDS)
    return bool(_stopped)


def _alone() -> bool:
    """Whether the service has hung up. What has not begun then is for whoever comes next."""
    poll = select.poll()
    poll.register(_SERVICE, 0)
    return bool(poll.poll(0))


@contextmanager
def _nameless(path: Path, told: dict[str, Any]) -> Iterator[int]:
    """A file to read this from. Unlike a pipe, it waits for nobody."""
    with path.open("w+b", buffering=0) as file:
        path.unlink()
        file.write(json.dumps(told).encode() + b"\n")
        file.seek(0)
        yield file.fileno()


def _variables(told: dict[str, Any]) -> dict[str, str]:
    names = ("kind", "scope", "machine", "event", "operation")
    values = {name: str(told[name]) for name in names}
    values |= {"impact": str(told["id"]), "repeat": "1" if told["repeat"] else "0"}
    return {f"FAIRWARNING_{name.upper()}": value for name, value in values.items()}


def keep(order: CommandRun) -> None:
    """See an order through, and say how it ended."""
    signal.signal(signal.SIGTERM, lambda number, _: _stopped.append(number))
    signal.signal(signal.SIGCHLD, lambda *_: None)  # so that a program's end wakes us
    os.setsid()
    try:
        ending = Keeper(order).attend()
    except (ImpactNotDone, ProgramNotStarted) as error:
        ending = ImpactResult(str(error), stopped=isinstance(error, KeeperStopped))
    except OSError as error:
        ending = ImpactResult(f"was not begun: {error.strerror}: {error.filename or order.record}")
    _say(_SERVICE, ending)
    os.close(_SERVICE)
    with suppress(OSError):
        tidy(Path(order.record).parent)


def _say(descriptor: int, ending: ImpactResult) -> None:
    with suppress(BrokenPipeError):  # the next service reads the record
        os.write(descriptor, json.dumps(ending._asdict()).encode())


def main() -> None:
    """Fork a keeper for each order, until the service hangs up."""
    os.setsid()  # a Ctrl-C is meant for the service
    os.closerange(_LOG + 1, os.sysconf("SC_OPEN_MAX"))  # what is the service's ends with it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers that have ended are not waited for
    with socket.socket(fileno=_ORDERS) as service:
        while True:
            order, descriptors, _, _ = socket.recv_fds(service, _ORDER_BYTES, 1)
            if not order:
                return
            with FileIO(descriptors[0], "w") as saying:
                _fork(order, saying.fileno())


def _fork(order: bytes, saying: int) -> None:
    try:
        process = os.fork()
    except OSError as error:
        _say(saying, ImpactResult(f"was not begun: no process can be started: {error.strerror}"))
        return
    if process:
        return
    try:
        os.dup2(saying, _SERVICE)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, _ORDERS)
        os.dup2(nothing, _LOG)  # whoever reads the service's log need not wait for us
        os.closerange(_LOG + 1, max(saying, nothing) + 1)
        keep(CommandRun(**json.loads(order)))
    except Exception as error:  # noqa: BLE001  (somebody waits for us)
        _say(_SERVICE, ImpactResult(f"it cannot be seen through: {type(error).__name__}: {error}"))
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
