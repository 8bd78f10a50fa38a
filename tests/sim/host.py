"""The host of the fleet: a clock that never errs, and a wall clock that is stepped."""

from fairwarning.service.clock import VirtualClock
from fairwarning.service.host_time import HostClocks, HostTime


class SimulatedHost(HostClocks):
    """Clocks of a host that reboots, and whose wall clock is stepped."""

    def __init__(self, now: float) -> None:
        self.now = now  # the true time
        self._shift = 0.0  # of the wall clock
        self._boots = 1
        self._booted_at = now

    def wall(self) -> float:
        return self.now + self._shift

    def monotonic(self) -> float:
        return self.now - self._booted_at

    def boot(self) -> str:
        return f"boot-{self._boots}"

    def step(self, seconds: float) -> None:
        """Step the wall clock; by 0: set it right."""
        self._shift = self._shift + seconds if seconds else 0.0

    def reboot(self) -> None:
        """Reboot."""
        self._boots += 1
        self._booted_at = self.now


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

    def ahead_seconds(self) -> int:
        """As in production."""
        return self.host_time.ahead_seconds()

    def state(self) -> str:
        """As in production."""
        return self.host_time.state()

    def restore(self, state: str, last: float) -> None:
        """As in production."""
        self.host_time.restore(state, last)

    def promise(self, moment: float) -> None:
        """As in production."""
        self.host_time.promise(moment)
