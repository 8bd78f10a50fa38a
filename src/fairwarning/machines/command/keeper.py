"""The keeper process: runs one impact's program to its end, even if the service is killed.

If the service ran the program itself and were killed, nothing would read the program's output,
enforce its timeout or record its exit code. The driver starts this module once and each keeper is
a fork of it, which is fast and small however large the service is.
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
from fairwarning.machines.command.program import ProgramExit, ProgramNotStarted, start_time
from fairwarning.machines.command.record import CommandRecord, ImpactResult, remove_old_records

CHECK_SECONDS = 60.0  # timeout of one run of `check`
_FIRST_PAUSE_SECONDS = 1.0  # before `check` runs again; doubles each time
_LONGEST_PAUSE_SECONDS = 30.0
_POLL_SECONDS = 0.05
_SETTLE_SECONDS = 0.1  # between the first and the last process of a group to receive a signal
_DONE, _NOT_DONE = 0, 1  # exit codes of `check`
_REQUESTS, _SERVICE, _LOG = 0, 1, 2  # descriptors; a keeper writes its result to the second
_REQUEST_BYTES = 256 * 1024

_stopped: list[int] = []  # the signals that asked this process to end


class CommandRun(NamedTuple):
    """The impact to execute, and how."""

    record: str
    impact: dict[str, Any]  # as in the JSON that the program gets
    program: Sequence[str]
    check: Sequence[str]
    timeout_seconds: float
    grace_seconds: float
    left_seconds: float  # until the service gives the impact up; after that nothing runs (IL5)


class ImpactNotDone(Exception):
    """The impact was not executed, or its outcome is unknown. A later keeper may try again."""


class KeeperStopped(ImpactNotDone):
    """This process was asked to end, and probably the service and the program as well."""


class Keeper:
    """Executes one impact."""

    def __init__(self, run: CommandRun) -> None:
        self._run = run
        self._deadline = time.monotonic() + run.left_seconds
        wait = partial(self._check_time, self._deadline, "an earlier keeper still has the impact")
        self._record = CommandRecord(Path(run.record), wait)
        self._repeat = self._record.started

    def execute(self) -> ImpactResult:
        """Execute the impact unless that was already done; return its result, old or new."""
        run, record = self._run, self._record
        if record.result is not None:
            return record.result
        if record.program is not None and not self._wait_for_orphan(*record.program):
            return record.finish(ImpactResult("took too long and was ended"))
        if run.check and self._is_done():
            return record.finish(ImpactResult(""))
        self._check_time(self._deadline, "not started")
        record.start(run.impact)
        ended = self._run_program(
            run.program, run.timeout_seconds, self._deadline, record.note_program
        )
        error = ended.failure()
        if error and _is_stopped():
            raise KeeperStopped(f"was stopped from outside: {error}")
        return record.finish(ImpactResult(error, ended.output))

    def _wait_for_orphan(self, process: int, started: str) -> bool:
        """Wait for a program whose keeper was killed; return whether it ended in time."""
        deadline = min(self._deadline, time.monotonic() + self._run.timeout_seconds)
        for number in (signal.SIGTERM, signal.SIGKILL):
            while time.monotonic() < deadline:
                if not started or start_time(process) != started:
                    return number is signal.SIGTERM
                self._check_time(math.inf, "the program started earlier is still running")
                time.sleep(_POLL_SECONDS)
            with suppress(OSError):
                os.killpg(process, number)
            deadline = time.monotonic() + self._run.grace_seconds
        return False

    def _is_done(self) -> bool:
        """Run `check` until it can tell; until then nothing else runs: at most once (IL5)."""
        deadline = min(self._deadline, time.monotonic() + self._run.timeout_seconds)
        pause = _FIRST_PAUSE_SECONDS
        while True:
            ended = self._run_program(self._run.check, CHECK_SECONDS, deadline)
            if ended.code in {_DONE, _NOT_DONE}:
                return ended.code == _DONE
            unclear = f"check cannot tell whether the impact was executed ({ended.failure()})"
            self._check_time(deadline - pause, unclear)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _run_program(
        self,
        command: Sequence[str],
        seconds: float,
        deadline: float,
        on_fork: Callable[[], None] | None = None,
    ) -> ProgramExit:
        impact = {**self._run.impact, "repeat": self._repeat}
        with _unlinked_file(Path(f"{self._run.record}.stdin"), impact) as stdin:
            return program.run(
                command,
                stdin=stdin,
                environment={**os.environ, **_variables(impact)},
                seconds=min(seconds, deadline - time.monotonic()),
                grace_seconds=self._run.grace_seconds,
                on_fork=on_fork,
            )

    def _check_time(self, deadline: float, reason: str) -> None:
        """Raise if there is no time left or the service has ended."""
        if time.monotonic() >= deadline:
            raise ImpactNotDone(f"{reason}, and there is no time left")
        if _stopped or _service_ended():
            raise KeeperStopped(f"{reason}, and the service has ended")


def _is_stopped() -> bool:
    """Return whether the signal that ended the program was sent to us too, as by systemd."""
    time.sleep(_SETTLE_SECONDS)
    return bool(_stopped)


def _service_ended() -> bool:
    """Return whether the service has closed its end; the next service starts what has not run."""
    poll = select.poll()
    poll.register(_SERVICE, 0)
    return bool(poll.poll(0))


@contextmanager
def _unlinked_file(path: Path, impact: dict[str, Any]) -> Iterator[int]:
    """Provide the impact as an open file without a name. Unlike a pipe it never blocks."""
    with path.open("w+b", buffering=0) as file:
        path.unlink()
        file.write(json.dumps(impact).encode() + b"\n")
        file.seek(0)
        yield file.fileno()


def _variables(impact: dict[str, Any]) -> dict[str, str]:
    return {
        "FAIRWARNING_IMPACT_ID": str(impact["id"]),
        "FAIRWARNING_KIND": str(impact["kind"]),
        "FAIRWARNING_SCOPE": str(impact["scope"]),
        "FAIRWARNING_MACHINE": str(impact["machine"]),
        "FAIRWARNING_EVENT_ID": str(impact["event"]),
        "FAIRWARNING_OPERATION_ID": str(impact["operation"]),
        "FAIRWARNING_REPEAT": "1" if impact["repeat"] else "0",
    }


def keep(run: CommandRun) -> None:
    """Execute an impact and send its result to the service."""
    signal.signal(signal.SIGTERM, lambda number, _: _stopped.append(number))
    signal.signal(signal.SIGCHLD, lambda *_: None)  # so that the end of a program wakes us
    os.setsid()
    try:
        result = Keeper(run).execute()
    except (ImpactNotDone, ProgramNotStarted) as error:
        result = ImpactResult(str(error), stopped=isinstance(error, KeeperStopped))
    except OSError as error:
        result = ImpactResult(f"not started: {error.strerror}: {error.filename or run.record}")
    _send(_SERVICE, result)
    os.close(_SERVICE)
    with suppress(OSError):
        remove_old_records(Path(run.record).parent)


def _send(descriptor: int, result: ImpactResult) -> None:
    with suppress(BrokenPipeError):  # the next service reads the record
        os.write(descriptor, json.dumps(result._asdict()).encode() + b"\n")


def main() -> None:
    """Fork a keeper for each request, until the service closes the connection."""
    os.setsid()  # Ctrl-C is for the service only
    os.closerange(_LOG + 1, os.sysconf("SC_OPEN_MAX"))  # keep none of the service's files open
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps keepers
    with socket.socket(fileno=_REQUESTS) as service:
        while True:
            request, descriptors, _, _ = socket.recv_fds(service, _REQUEST_BYTES, 1)
            if not request:
                return
            with FileIO(descriptors[0], "w") as writer:
                _fork(request, writer.fileno())


def _fork(request: bytes, writer: int) -> None:
    try:
        process = os.fork()
    except OSError as error:
        _send(writer, ImpactResult(f"not started: cannot start a process: {error.strerror}"))
        return
    if process:
        return
    try:
        os.dup2(writer, _SERVICE)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, _REQUESTS)
        os.dup2(null, _LOG)  # do not keep the service's log open
        os.closerange(_LOG + 1, max(writer, null) + 1)
        keep(CommandRun(**json.loads(request)))
    except Exception as error:  # noqa: BLE001  (the service waits for a result)
        _send(_SERVICE, ImpactResult(f"the keeper failed: {type(error).__name__}: {error}"))
    finally:
        os._exit(0)
