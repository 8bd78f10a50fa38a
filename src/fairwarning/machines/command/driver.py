"""The command driver: runs a program that the operator provides for each impact.

A keeper process (`keeper.py`) runs the program, so that neither the program nor the record of its
result depends on the service. This module schedules impacts and reports their results.
"""

import asyncio
import json
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from fairwarning.core.errors import Refused
from fairwarning.core.model import Impact
from fairwarning.machines.command.keeper import CommandRun
from fairwarning.machines.command.keepers import KeeperLost, KeeperProcesses
from fairwarning.machines.command.record import ImpactResult
from fairwarning.machines.driver import Report, announced_seconds

MAX_CONCURRENT = 32  # programs; further impacts wait
TIMEOUT_SECONDS = 600.0
GRACE_SECONDS = 10.0  # between SIGTERM and SIGKILL
_PAUSES_SECONDS = (0.0, 0.1, 1.0, 5.0)  # before each attempt, if the last keeper was lost
_STOPPED_SECONDS = 10.0  # within which a stopping service has closed its driver
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
        self._keepers = KeeperProcesses()
        self._closing = False
        self.problem = ""  # why the last impact could not be started

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
            try:
                result = await self._result(impact, received_at)
            except Exception as error:  # any exception ends the impact
                log.exception("impact %s failed", impact.id)
                result = ImpactResult(f"the driver failed: {error}")
        if result.error:
            output = "".join(f"\n  | {line}" for line in result.output)
            log.warning("impact %s (%s) failed: %s%s", impact.id, impact.kind, result.error, output)
        report(impact, result.error)

    async def _result(self, impact: Impact, received_at: float) -> ImpactResult:
        reason = ""
        for pause in _PAUSES_SECONDS:
            await asyncio.sleep(pause)
            run = self._command_run(impact, received_at)
            if run.left_seconds <= 0:
                return ImpactResult(reason or "not started: the service has given the impact up")
            try:
                result = ImpactResult(**json.loads(await self._keepers.run(run)))
            except OSError as error:
                self.problem = f"cannot start a process: {error.strerror or error}"
                return ImpactResult(f"not started: cannot start a process: {error}")
            except KeeperLost as error:
                reason = self.problem = str(error)
                log.warning("impact %s: %s; trying again", impact.id, reason)
                continue
            self.problem = ""
            if result.stopped:  # the service probably stops too; the next one starts anew
                await asyncio.sleep(_STOPPED_SECONDS)
            return result
        return ImpactResult(f"failed on every attempt: {reason}")

    def _command_run(self, impact: Impact, received_at: float) -> CommandRun:
        name = sha256(impact.id.encode()).hexdigest()
        left = received_at + impact.limit_seconds - self._now()
        return CommandRun(
            record=str(self._state / name[:2] / name[2:]),
            impact=impact_json(impact),
            program=self._program,
            check=self._check,
            timeout_seconds=self._timeout_seconds + announced_seconds(impact),
            grace_seconds=self._grace_seconds,
            left_seconds=left,
        )


def impact_json(impact: Impact) -> dict[str, Any]:
    """Return what the program gets of an impact; the keeper adds `repeat`."""
    return {
        "id": impact.id,
        "kind": str(impact.kind),
        "scope": impact.scope,
        "machine": impact.machine,
        "event": impact.event,
        "operation": impact.operation,
        "duration_seconds": impact.duration_seconds,
    }


def _runnable(name: str, command: Sequence[str]) -> list[str]:
    if not command or shutil.which(command[0]) is None:
        problem = f"{name} {command[0]!r} cannot be run" if command else f"{name} is empty"
        raise Refused("NoProgram", f"{problem}; {_NO_PROGRAM}")
    return list(command)
