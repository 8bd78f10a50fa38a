"""Passes impacts to the driver, at least once each, and its reports to the fleet."""

from collections.abc import Callable

from fairwarning.core import limits
from fairwarning.core.commands import ReportImpact
from fairwarning.core.model import Impact
from fairwarning.machines.driver import Driver
from fairwarning.service import failpoints


class ImpactDispatcher:
    """The impacts that this process is carrying out."""

    def __init__(self, driver: Driver, finish: Callable[[ReportImpact], None]) -> None:
        self._driver = driver
        self._finish = finish
        self._under_way: set[str] = set()

    def dispatch(self, impact: Impact) -> None:
        """Pass an impact to the driver, unless the driver already has it."""
        if impact.id in self._under_way:
            return
        self._under_way.add(impact.id)
        failpoints.hit("impact.before")
        try:
            self._driver.carry_out(impact, self._report)
        except Exception as error:  # noqa: BLE001  (any driver error is a failed impact)
            self._report(impact, f"the driver failed: {error}")
        failpoints.hit("impact.after")

    def forget(self, impact: str) -> None:
        """Drop a settled impact."""
        self._under_way.discard(impact)

    def _report(self, impact: Impact, error: str) -> None:
        failpoints.hit("report.before")
        self._finish(
            ReportImpact(
                scope=impact.scope,
                machine=impact.machine,
                impact=impact.id,
                # A driver's text may be too long for the store, or not valid Unicode.
                error=error.encode(errors="replace").decode()[: limits.TEXT_CHARACTERS],
            )
        )
