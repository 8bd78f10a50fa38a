"""The simulated driver: nothing happens to any machine, but it takes as long as in real life."""

from collections.abc import Callable, Mapping

from fairwarning.core import limits
from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.driver import Report

Later = Callable[[float, Callable[[], None]], object]
"""Calls back after so many seconds of the fleet's clock."""

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
    """Reports each impact as carried out once its usual duration has passed."""

    def __init__(
        self, later: Later, durations: Mapping[ImpactKind, float] = DURATIONS_SECONDS
    ) -> None:
        self._later = later
        self._durations = durations

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Wait; an announced duration counts, the usual one otherwise."""
        seconds: float = impact.duration_seconds
        if seconds == limits.UNKNOWN_DURATION:
            seconds = self._durations[impact.kind]
        self._later(seconds, lambda: report(impact, ""))
