"""Wakes the fleet when the next entity is due. The store indexes due times; there is no scan."""

from collections.abc import Callable

from fairwarning.service.clock import Alarm, Clock


class Timers:
    """A single alarm, set to the earliest due time."""

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self.due = False  # an entity is due, and the writer has not handled it yet
        self._clock = clock
        self._wake = wake
        self._at: float | None = None
        self._alarm: Alarm | None = None

    def arm(self, moment: float | None) -> None:
        """Set the earliest due time."""
        if moment == self._at and self._alarm is not None:
            return
        self.disarm()
        self._at = moment
        if moment is None:
            return
        if moment <= self._clock.now():
            self.fire()
        else:
            self._alarm = self._clock.call_at(moment, self.fire)

    def disarm(self) -> None:
        """Cancel the alarm."""
        if self._alarm:
            self._alarm.cancel()
        self._alarm = None
        self._at = None
        self.due = False

    def fire(self) -> None:
        """Mark an entity as due, and wake the writer."""
        self._alarm = None
        self._at = None
        self.due = True
        self._wake()
