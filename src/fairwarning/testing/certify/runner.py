"""Runs a program through traps, in parallel."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from fairwarning.core.errors import FairwarningError
from fairwarning.testing.certify import allowances
from fairwarning.testing.certify.environment import CertifyEnvironment, TrapFailed
from fairwarning.testing.certify.report import TrapResult
from fairwarning.testing.certify.trap_run import CertifyOptions, TrapRun
from fairwarning.testing.certify.traps import Trap

_STARTING = 2  # programs that start at a time, so that starts do not slow down running traps
_START_SLOT_SECONDS = 2.0  # a program that has not polled by then frees its slot for the next one


async def run_trap(
    trap: Trap, options: CertifyOptions, folder: Path, starting: asyncio.Semaphore
) -> TrapResult:
    """Run one program in one trap."""
    async with AsyncExitStack() as stack:
        async with starting:
            started = time.monotonic()
            environment = CertifyEnvironment(
                options.command,
                folder,
                trap.name,
                spot=trap.spot,
                exec_options=options.exec_options(),
            )
            await stack.enter_async_context(environment.open())
            environment.start()
            await environment.until(
                lambda: environment.seen.polls > 0, _START_SLOT_SECONDS, ends=True
            )
        run = TrapRun(environment, options)
        try:
            seen, survived = await run.run(trap.steps), True
        except TrapFailed as failure:
            seen, survived = str(failure), False
        return TrapResult(
            trap,
            survived,
            seen,
            time.monotonic() - started,
            frozenset(run.ignored),
            frozenset(run.handled),
            environment.output(),
        )


async def run_all(
    traps: Sequence[Trap],
    options: CertifyOptions,
    folder: Path,
    ended: Callable[[TrapResult], None],
) -> list[TrapResult]:
    """Run the traps, `jobs` at a time; return the results in the order of the traps."""
    slots, starting = asyncio.Semaphore(options.jobs), asyncio.Semaphore(_STARTING)

    async def run(number: int, trap: Trap) -> TrapResult:
        async with slots:
            result = await run_trap(trap, options, folder / str(number), starting)
        ended(result)
        return result

    await _check_host(folder / "trial", options)
    tasks = [asyncio.create_task(run(number, trap)) for number, trap in enumerate(traps)]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _check_host(folder: Path, options: CertifyOptions) -> None:
    """Raise an error if this host cannot run any program inside a machine."""
    trial = CertifyEnvironment(("true",), folder, exec_options=options.exec_options())
    async with trial.open() as environment:
        environment.start()
        await environment.until(
            lambda: environment.code() is not None, allowances.START_SECONDS, ends=True
        )
        if environment.code():
            reason = environment.last_output().removeprefix("fairwarning: ")
            raise FairwarningError("CannotRun", f"cannot run programs inside a machine: {reason}")
