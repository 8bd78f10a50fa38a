"""Compares fleet time with the clock it comes from, and reports when the two disagree (E11)."""

import asyncio
import logging

from fairwarning.service.clock import Clock, RealClock
from fairwarning.service.host_time import TOLERANCE_SECONDS
from fairwarning.service.metrics import Metric, gauge

log = logging.getLogger(__name__)

_INTERVAL_SECONDS = 1.0


class ClockMonitor:
    """Logs the beginning and the end of a difference, and exports it as a metric."""

    def __init__(self, clock: Clock, reference: str) -> None:
        """`reference` names the clock that fleet time comes from."""
        self._clock = clock if isinstance(clock, RealClock) else None
        self._reference = reference
        self._differs = False

    @property
    def ahead_seconds(self) -> float:
        """Seconds by which fleet time is ahead of its reference; 0 for virtual time."""
        return self._clock.host_time.ahead if self._clock else 0.0

    @property
    def difference_seconds(self) -> float:
        """`ahead_seconds` where it is more than the tolerance, else 0."""
        ahead = self.ahead_seconds
        return ahead if abs(ahead) > TOLERANCE_SECONDS else 0.0

    async def run(self) -> None:
        """Compare with the host's clock once a second, until cancelled."""
        while self._clock:
            self.compare()
            await asyncio.sleep(_INTERVAL_SECONDS)

    def compare(self) -> None:
        """Compare with the host's clock, and follow it where that shortens no notice."""
        if self._clock:
            jump = self._clock.host_time.follow_wall()
            if jump > TOLERANCE_SECONDS:
                log.warning(
                    "%s is %.1f s later than fleet time; fleet time follows it, because no notice "
                    "is pending",
                    *(self._reference, jump),
                )
            self.report()

    def report(self) -> None:
        """Log a new difference, and the end of one."""
        ahead = self.difference_seconds
        if ahead and not self._differs:
            self._differs = True
            log.warning(
                "fleet time is %.1f s %s %s; notices keep their length, and fleet time follows "
                "once no notice is pending; check the clock and its synchronization",
                *(abs(ahead), "ahead of" if ahead > 0 else "behind", self._reference),
            )
        elif self._differs and not ahead:
            self._differs = False
            log.warning("fleet time agrees with %s again", self._reference)

    def metrics(self) -> list[Metric]:
        """The current difference."""
        text = "Seconds by which fleet time is ahead of the clock it comes from."
        return [gauge("fairwarning_clock_ahead_seconds", text, self.ahead_seconds)]
