"""Runs a program through traps, side by side."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from fairwarning.core.errors import FairwarningError
from fairwarning.testing.certify import allowances
from fairwarning.testing.certify.judging import TrapResult
from fairwarning.testing.certify.playing import CertifyOptions, TrapRun
from fairwarning.testing.certify.stage import CertifyEnvironment, TrapFailed
from fairwarning.testing.certify.traps import Trap

_STARTING = 2  # at a time: a crowd of starts keeps what runs already from its work
_CALM_SECONDS = 2.0  # who has not asked by then may take as long as it likes beside the others


async def play(
    trap: Trap, terms: CertifyOptions, folder: Path, starting: asyncio.Semaphore
) -> TrapResult:
    """One program in one trap."""
    async with AsyncExitStack() as stack:
        async with starting:
            began = time.monotonic()
            stage = CertifyEnvironment(terms.command, folder, trap.name, spot=trap.spot)
            await stack.enter_async_context(stage.open())
            stage.start()
            await stage.until(lambda: stage.seen.polls > 0, _CALM_SECONDS, ends=True)
        one = TrapRun(stage, terms)
        try:
            seen, survived = await one.run(trap.steps), True
        except TrapFailed as trapped:
            seen, survived = str(trapped), False
        return TrapResult(trap, survived, seen, time.monotonic() - began, one.silent)


async def play_all(
    traps: Sequence[Trap], terms: CertifyOptions, folder: Path, ended: Callable[[TrapResult], None]
) -> list[TrapResult]:
    """All of these, `jobs` at a time; the verdicts in the order of the traps."""
    slots, starting = asyncio.Semaphore(terms.jobs), asyncio.Semaphore(_STARTING)

    async def one(number: int, trap: Trap) -> TrapResult:
        async with slots:
            verdict = await play(trap, terms, folder / str(number), starting)
        ended(verdict)
        return verdict

    await _try_out(folder / "trial")
    tasks = [asyncio.create_task(one(*each)) for each in enumerate(traps)]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _try_out(folder: Path) -> None:
    """Whether any program at all can be run inside a machine here; raises if not."""
    async with CertifyEnvironment(("true",), folder).open() as stage:
        stage.start()
        await stage.until(lambda: stage.code() is not None, allowances.START_SECONDS, ends=True)
        if stage.code():
            words = stage.last_words().removeprefix("fairwarning: ")
            raise FairwarningError("CannotRun", f"no program can be run inside a machine: {words}")
