"""The `Driver` protocol."""

from collections.abc import Callable
from typing import Protocol

from fairwarning.core import limits
from fairwarning.core.model import Impact, ImpactKind

Report = Callable[[Impact, str], None]
"""Called when an impact has finished: with an empty string on success, else with the reason."""

Later = Callable[[float, Callable[[], None]], object]
"""Calls back after that many seconds of the fleet's clock."""


def announced_seconds(impact: Impact) -> int:
    """Return the announced duration; without one, that of a usual freeze, and 0 for the rest.

    Every time limit of a driver leaves this much, and its own setting besides (E9).
    """
    if impact.duration_seconds != limits.UNKNOWN_DURATION:
        return impact.duration_seconds
    return limits.FREEZE_DURATION_SECONDS if impact.kind is ImpactKind.FREEZE else 0


class Driver(Protocol):
    """Executes impacts. The service may hand over an impact again after a restart, with its id.

    A driver that can tell that it already executed an impact reports it without repeating it; a
    driver that cannot may repeat it (E9).
    """

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Start the impact and return at once; call `report` when it has finished."""
