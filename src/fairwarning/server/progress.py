"""Reports to what supervises this process, systemd or the parent of a worker, how it is (IB6).

It reports progress only if the writer has turned since the last report, or has nothing to do, and
if a write to the store returned: with success, or with an error that `/readyz` shows.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from fairwarning.core.errors import Unavailable
from fairwarning.service.fleet import Fleet

log = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0  # between two reports at most; each costs a small commit
STEP_SECONDS = 3600.0  # for a step of the start during which the writer does nothing


class ProgressReceiver(Protocol):
    """Restarts a process that reports nothing for a while."""

    @property
    def period_seconds(self) -> float: ...

    def report_start(self, waiting_for: str) -> None: ...

    def report_ready(self) -> None: ...

    def report_progress(self) -> None: ...

    def report_stop(self) -> None: ...


@dataclass(frozen=True)
class StartStep:
    """What the start of a process waits for."""

    waiting_for: str
    limit_seconds: float = STEP_SECONDS
    since: float = field(default_factory=monotonic)


class ProgressReporter:
    """Reports the steps of the start, then the progress of the fleet's writer."""

    def __init__(
        self,
        supervisor: ProgressReceiver,
        fleet: Fleet,
        step: Callable[[], StartStep | None],
        give_up: Callable[[Unavailable], None],
    ) -> None:
        """`step` returns what the start waits for; None once the service serves."""
        self._supervisor = supervisor
        self._fleet = fleet
        self._step = step
        self._give_up = give_up
        self._progress: int | None = None
        self._progressed_at = float("-inf")

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            try:
                await self.report()
            except Exception:
                log.exception("cannot report progress; trying again")
            await asyncio.sleep(self._supervisor.period_seconds)

    async def report(self) -> None:
        """Report once, if there is progress."""
        if step := self._step():
            self._report_step(step)
            return
        await self._fleet.store_check.error()  # does not return while the store hangs
        if self._writer_progressed():
            self._supervisor.report_progress()

    def _report_step(self, step: StartStep) -> None:
        self._writer_progressed()
        seconds = monotonic() - max(step.since, self._progressed_at)
        if seconds > step.limit_seconds:
            text = f"the start is given up: it waited for {step.waiting_for} for {seconds:.0f} s"
            log.error(text)
            self._give_up(Unavailable("StartTimedOut", text))
            return
        if monotonic() - step.since > self._supervisor.period_seconds / 2:
            log.warning("waiting for %s since %.0f s", step.waiting_for, monotonic() - step.since)
        self._supervisor.report_start(step.waiting_for)

    def _writer_progressed(self) -> bool:
        """Whether the writer has turned since the last call, or has nothing to do."""
        progress = self._fleet.writer.progress
        progressed = progress is None or progress != self._progress
        if progressed and progress is not None:
            self._progressed_at = monotonic()
        self._progress = progress
        return progressed
