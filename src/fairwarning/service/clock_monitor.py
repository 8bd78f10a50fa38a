"""Compares fleet time with the clock it comes from, and reports when the two disagree (E11)."""

import logging

from fairwarning.service.clock import Clock
from fairwarning.service.health import PartHealth
from fairwarning.service.host_time import BELIEVED_SECONDS, TOLERANCE_SECONDS
from fairwarning.service.metrics import Metric, gauge

log = logging.getLogger(__name__)

_PRECISE_SECONDS = 0.25  # by which a process may differ from the database's time (IK4)


class ClockMonitor:
    """Logs the beginning and the end of a difference, and exports it as a metric."""

    def __init__(self, clock: Clock, reference: str) -> None:
        """`reference` names the clock that fleet time comes from."""
        self._host_time = clock.host_time
        self._reference = reference
        self._differs = False
        self.ahead_seconds = 0.0
        """By which fleet time was ahead of its reference when last compared."""
        self.jump_seconds = 0.0
        """By which it jumped forwards then, beyond the tolerance."""

    @property
    def difference_seconds(self) -> float:
        """`ahead_seconds` where it is more than the tolerance, else 0."""
        ahead = self.ahead_seconds
        return ahead if abs(ahead) > TOLERANCE_SECONDS else 0.0

    def compare(self, stored_state: str | None) -> bool:
        """Follow the host's clock where that shortens no notice.

        Return whether the clock has to be stored, whose stored state may be None: it is not known.
        """
        if self._host_time is None:
            return False
        jump = self._host_time.follow_wall()
        self.jump_seconds = jump if jump > TOLERANCE_SECONDS else 0.0
        if self.jump_seconds:
            log.warning(
                "fleet time follows %s, which was %.1f s later, because no notice is pending",
                *(self._reference, jump),
            )
        self.report()
        return stored_state is None or self._host_time.differs_from(stored_state)

    def report(self) -> None:
        """Log a new difference, and the end of one."""
        self.ahead_seconds = self._host_time.ahead if self._host_time else 0.0
        ahead = self.difference_seconds
        if bool(ahead) == self._differs:
            return
        self._differs = not self._differs
        if ahead:
            log.warning(
                "%s; notices keep their length, new events are announced by that clock, and fleet "
                "time follows once no notice is pending and the clock was not stepped for %d s; "
                "check the clock and its synchronization",
                *(self._difference(), BELIEVED_SECONDS),
            )
        else:
            log.warning("fleet time agrees with %s again", self._reference)

    def _difference(self) -> str:
        ahead = self.difference_seconds
        direction = "ahead of" if ahead > 0 else "behind"
        return f"fleet time is {abs(ahead):.1f} s {direction} {self._reference}"

    def health(self) -> PartHealth:
        """Whether the clocks agree, and this process knows the time precisely enough (IK4)."""
        error = self._host_time.error_seconds if self._host_time else 0.0
        if self._differs:
            text = self._difference()
        elif error > _PRECISE_SECONDS:
            text = f"the database or this host is slow: time is only known to within {error:.1f} s"
        else:
            text = ""
        return PartHealth(name="clock", problem=text)

    def metrics(self) -> list[Metric]:
        """The current difference."""
        text = "Seconds by which fleet time is ahead of the clock it comes from."
        return [gauge("fairwarning_clock_ahead_seconds", text, self.ahead_seconds)]
