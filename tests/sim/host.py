"""The host of the fleet: a clock that never errs, and a wall clock that is stepped."""

from fairwarning.service.clock import VirtualClock
from fairwarning.service.host_time import HostClocks, HostTime


class SimulatedHost(HostClocks):
    """Clocks of a host that reboots, and whose wall clock is stepped."""

    def __init__(self, now: float) -> None:
        self.now = now  # the true time
        self._shift = 0.0  # of the wall clock
        self._correction = 0.0  # of a wall clock that is early since the boot
        self._boots = 1
        self._booted_at = now
        self.unseen_step = False  # no process has compared the clocks since the last step

    def wall(self) -> float:
        return self.now + self._shift

    def monotonic(self) -> float:
        return self.now - self._booted_at

    def boot(self) -> str:
        return f"boot-{self._boots}"

    def step(self, seconds: float) -> None:
        """Step the wall clock, or set it right if it is early since the boot.

        Nothing can tell another step from the first one, if no process has seen that.
        """
        if self.unseen_step:
            return
        self._shift += self._correction or seconds
        self._correction = 0.0
        self.unseen_step = True

    def reboot(self, early_seconds: float, *, knows_early: bool) -> None:
        """Reboot; the wall clock is then right, or early until the next step.

        After a step that no process has seen, nothing can tell it from time that the host was down.
        Nor can it if the clock was early and no process knew.
        """
        if self.unseen_step or (self._correction and not knows_early):
            return
        self._boots += 1
        self._booted_at = self.now
        self._shift += self._correction - early_seconds
        self._correction = early_seconds


class SimulatedRealClock(VirtualClock):
    """Real time on a simulated host: alarms as with virtual time, the rest as in production."""

    def __init__(self, host: SimulatedHost) -> None:
        super().__init__()
        self._host = host
        self.host_time: HostTime = HostTime(host)

    def now(self) -> float:
        """Fleet time."""
        return self.host_time.now()

    def _set(self, now: float) -> None:
        self._host.now += now - self.now()

    def state(self) -> str:
        """As in production."""
        return self.host_time.state()

    def restore(self, state: str, last: float) -> None:
        """As in production."""
        self.host_time.restore(state, last)

    def promise(self, moment: float) -> None:
        """As in production."""
        self.host_time.promise(moment)
