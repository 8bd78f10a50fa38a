"""Hands impacts to the driver, at least once, by id; brings its reports back."""

from collections.abc import Callable

from fairwarning.core import limits
from fairwarning.core.commands import ReportImpact
from fairwarning.core.model import Impact
from fairwarning.machines.driver import Driver
from fairwarning.service import failpoints


class ImpactDispatcher:
    """What is being carried out by this process."""

    def __init__(self, driver: Driver, finish: Callable[[ReportImpact], None]) -> None:
        self._driver = driver
        self._finish = finish
        self._under_way: set[str] = set()

    def hand_over(self, impact: Impact) -> None:
        """Give an impact to the driver, unless it has it already."""
        if impact.id in self._under_way:
            return
        self._under_way.add(impact.id)
        failpoints.hit("impact.before")
        try:
            self._driver.carry_out(impact, self._report)
        except Exception as error:  # noqa: BLE001  (whatever a driver raises is a failed impact)
            self._report(impact, f"the driver failed: {error}")
        failpoints.hit("impact.after")

    def forget(self, impact: str) -> None:
        """An impact is settled."""
        self._under_way.discard(impact)

    def _report(self, impact: Impact, error: str) -> None:
        failpoints.hit("report.before")
        self._finish(
            ReportImpact(
                scope=impact.scope,
                machine=impact.machine,
                impact=impact.id,
                # Whatever a driver says must be fit to be stored.
                error=error.encode(errors="replace").decode()[: limits.TEXT_CHARACTERS],
            )
        )
