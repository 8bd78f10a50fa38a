"""Passes impacts to the driver, at least once each, and its reports to the fleet."""

import heapq
from collections.abc import Callable

from fairwarning.core import limits
from fairwarning.core.commands import Command, GiveUpImpact, ReportImpact
from fairwarning.core.model import Impact
from fairwarning.machines.driver import Driver
from fairwarning.service import failpoints
from fairwarning.service.clock import Alarm, Clock


class ImpactDispatcher:
    """The impacts that this process is carrying out.

    The limit of an impact counts from when this process handed it over: a driver is not blamed for
    the time in which no service ran (E9).
    """

    def __init__(self, driver: Driver, clock: Clock, post: Callable[[Command], None]) -> None:
        self._driver = driver
        self._clock = clock
        self._post = post
        self._under_way: dict[str, Impact] = {}
        self._limits: list[tuple[float, str]] = []  # a heap; impacts that ended may be in it
        self._alarm: Alarm | None = None
        self._alarm_at = 0.0

    def dispatch(self, impact: Impact) -> None:
        """Pass an impact to the driver, unless the driver already has it."""
        if impact.id in self._under_way:
            return
        self._under_way[impact.id] = impact
        limit = self._clock.now() + impact.limit_seconds
        self._clock.promise(limit)
        heapq.heappush(self._limits, (limit, impact.id))
        self._arm()
        failpoints.hit("impact.before")
        try:
            self._driver.carry_out(impact, self._report)
        except Exception as error:  # noqa: BLE001  (any driver error is a failed impact)
            self._report(impact, f"the driver failed: {error}")
        failpoints.hit("impact.after")

    def forget(self, impact: str) -> None:
        """Drop a settled impact."""
        self._under_way.pop(impact, None)

    def close(self) -> None:
        """Give no impact up any more."""
        if self._alarm:
            self._alarm.cancel()
        self._alarm = None

    def _arm(self) -> None:
        """Set the alarm to the earliest limit."""
        while self._limits and self._limits[0][1] not in self._under_way:
            heapq.heappop(self._limits)
        if not self._limits or (self._alarm and self._alarm_at == self._limits[0][0]):
            return
        self.close()
        self._alarm_at = self._limits[0][0]
        self._alarm = self._clock.call_at(self._alarm_at, self._give_up_overdue)

    def _give_up_overdue(self) -> None:
        self._alarm = None
        while self._limits and self._limits[0][0] <= self._clock.now():
            impact = self._under_way.get(heapq.heappop(self._limits)[1])
            if impact:
                self._post(
                    GiveUpImpact(scope=impact.scope, machine=impact.machine, impact=impact.id)
                )
        self._arm()

    def _report(self, impact: Impact, error: str) -> None:
        failpoints.hit("report.before")
        self._post(
            ReportImpact(
                scope=impact.scope,
                machine=impact.machine,
                impact=impact.id,
                # A driver's text may be too long for the store, or not valid Unicode.
                error=error.encode(errors="replace").decode()[: limits.TEXT_CHARACTERS],
            )
        )
