"""The simulated driver: does nothing to any machine, but takes a realistic time."""

from collections.abc import Mapping

from fairwarning.core import limits
from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.driver import Later, Report

DURATIONS_SECONDS: Mapping[ImpactKind, float] = {
    ImpactKind.FREEZE: limits.FREEZE_DURATION_SECONDS,
    ImpactKind.REBOOT: 60,
    ImpactKind.REDEPLOY: 240,
    ImpactKind.EVICT: 10,
    ImpactKind.DELETE: 30,
    ImpactKind.REIMAGE: 120,
    ImpactKind.STOP: 15,
    ImpactKind.DEALLOCATE: 30,
    ImpactKind.START: 30,
}


class SimulatedDriver:
    """Reports each impact as successful once its usual duration has passed."""

    def __init__(
        self, later: Later, durations: Mapping[ImpactKind, float] = DURATIONS_SECONDS
    ) -> None:
        self._later = later
        self._durations = durations

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Wait for the announced duration, or the usual one if none was announced."""
        seconds: float = impact.duration_seconds
        if seconds == limits.UNKNOWN_DURATION:
            seconds = self._durations[impact.kind]
        self._later(seconds, lambda: report(impact, ""))
