"""Wakes the fleet when the next entity is due. The store knows which; there is no scan."""

from collections.abc import Callable

from fairwarning.service.clock import Alarm, Clock


class Timers:
    """One alarm, set to the earliest due time there is."""

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self.due = False  # something is, and the writer has not taken it yet
        self._clock = clock
        self._wake = wake
        self._at: float | None = None
        self._alarm: Alarm | None = None

    def arm(self, moment: float | None) -> None:
        """This is the earliest due time now."""
        if moment == self._at and self._alarm is not None:
            return
        self.disarm()
        self._at = moment
        if moment is None:
            return
        if moment <= self._clock.now():
            self.ring()
        else:
            self._alarm = self._clock.call_at(moment, self.ring)

    def disarm(self) -> None:
        """Wake nobody."""
        if self._alarm:
            self._alarm.cancel()
        self._alarm = None
        self._at = None
        self.due = False

    def ring(self) -> None:
        """Something is due."""
        self._alarm = None
        self._at = None
        self.due = True
        self._wake()
