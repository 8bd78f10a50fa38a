"""All time comes from one clock (E11): real, or virtual (frozen, advanced by hand, or running)."""

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count

from fairwarning.core.errors import Refused
from fairwarning.service.host_time import HostClocks, HostTime
from fairwarning.store.store import ClockReading

Callback = Callable[[], None]


class Alarm:
    """A scheduled callback."""

    __slots__ = ("callback", "timer")

    def __init__(self, callback: Callback) -> None:
        self.callback: Callback | None = callback
        self.timer: asyncio.TimerHandle | None = None

    def fire(self) -> None:
        """Call the callback, once, unless cancelled."""
        callback, self.callback = self.callback, None
        if callback:
            callback()

    def cancel(self) -> None:
        """Never call the callback."""
        self.callback = None
        if self.timer:
            self.timer.cancel()


class RealClock:
    """Real time: wall time that no step, restart or pause shortens (see `host_time`)."""

    def __init__(self, clocks: HostClocks | None = None) -> None:
        self.host_time = HostTime(clocks)
        self.rate = 1.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.host_time.now()

    def ahead_seconds(self) -> int:
        """Seconds by which fleet time is ahead of wall time."""
        return self.host_time.ahead_seconds()

    def call_at(self, moment: float, callback: Callback) -> Alarm:
        """Call the callback at that time, never before it."""
        alarm = Alarm(callback)
        self._arm(alarm, moment)
        return alarm

    def _arm(self, alarm: Alarm, moment: float) -> None:
        def check() -> None:
            # The event loop's clock may stop during suspend, or round down.
            if self.now() < moment:
                self._arm(alarm, moment)
            else:
                alarm.fire()

        wait = min(max(moment - self.now(), 0), _LONGEST_WAIT_SECONDS)
        alarm.timer = asyncio.get_running_loop().call_later(wait, check)

    def state(self) -> str:
        """The relation of fleet time to the host's clocks, and the notices given."""
        return self.host_time.state()

    def restore(self, state: str, last: float) -> None:
        """Continue after the time that passed; that of a reboot does not count."""
        self.host_time.restore(state, last)

    def promise(self, moment: float) -> None:
        """Shorten nothing that was announced for this moment.

        It is rounded up, so that the state of the clock seldom changes and is seldom stored.
        """
        self.host_time.promise(-(-moment // _PROMISE_SECONDS) * _PROMISE_SECONDS)

    def synchronize(self, reading: ClockReading) -> None:
        """Follow the shared time, so that differences between hosts shorten no notice."""
        self.host_time.synchronize(reading)


_PROMISE_SECONDS = 60.0
_LONGEST_WAIT_SECONDS = 4.0  # a suspended host or a jump of the clock delays an alarm no longer


class VirtualClock:
    """Time that is frozen until advanced, or that runs at a multiple of real time."""

    host_time: HostTime | None = None

    def __init__(self, start: float = 0.0) -> None:
        self._base = start
        self._rate = 0.0
        self._since = time.monotonic()
        self._alarms: list[tuple[float, int, Alarm]] = []  # a heap; some may be cancelled
        self._most_alarms = _ALARMS  # in the heap; then the cancelled ones are dropped
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self.watchers: list[Callback] = []
        """Called when time jumps or its rate changes."""
        self.settled: Callable[[], Awaitable[None]] = _do_nothing
        """Awaited between two alarms while time advances: the first one's effects finish first."""

    def now(self) -> float:
        """Virtual seconds since the epoch."""
        if not self._rate:
            return self._base
        return self._base + (time.monotonic() - self._since) * self._rate

    def ahead_seconds(self) -> int:
        """Return 0: machines are told virtual time."""
        return 0

    @property
    def rate(self) -> float:
        """Virtual seconds per real second; 0 means frozen."""
        return self._rate

    def call_at(self, moment: float, callback: Callback) -> Alarm:
        """Call the callback when virtual time reaches that moment."""
        alarm = Alarm(callback)
        if len(self._alarms) >= self._most_alarms:
            self._alarms = [entry for entry in self._alarms if entry[2].callback]
            heapq.heapify(self._alarms)
            self._most_alarms = max(_ALARMS, 2 * len(self._alarms))
        heapq.heappush(self._alarms, (moment, next(self._order), alarm))
        self._arm()
        return alarm

    async def advance(self, seconds: float) -> None:
        """Advance virtual time, and fire each alarm at its own time."""
        if not 0 <= seconds <= _FARTHEST_SECONDS:
            raise Refused("BadAdvance", f"advance by 0 to {_FARTHEST_SECONDS} seconds (366 days)")
        await self.settled()
        goal = self.now() + seconds
        try:
            while self._alarms and self._alarms[0][0] <= goal:
                moment, _, alarm = heapq.heappop(self._alarms)
                if alarm.callback:
                    self._set(max(moment, self.now()))
                    alarm.fire()
                    await self.settled()
            self._set(max(goal, self.now()))
        finally:  # a callback that fails stops no other
            self._arm()

    def run(self, rate: float) -> None:
        """Run at a multiple of real time; 0 freezes the clock."""
        if not 0 <= rate <= _FASTEST:
            raise Refused("BadRate", f"run at 0 (frozen) to {_FASTEST:g} times real time")
        now = self.now()
        self._rate = rate
        self._set(now)
        self._arm()

    def state(self) -> str:
        """Time and rate, so that virtual time continues after a restart."""
        return f"{self.now()!r} {self._rate!r}"

    def restore(self, state: str, last: float) -> None:  # noqa: ARG002  (the state has the time)
        """Restore time and rate; the state of a real clock says nothing about virtual time."""
        with suppress(ValueError):
            now, rate = map(float, state.split())
            self._rate = rate
            self._set(max(self._base, now))

    def promise(self, moment: float) -> None:
        """Do nothing: virtual time moves only when told to."""

    def synchronize(self, reading: ClockReading) -> None:  # noqa: ARG002  (virtual time is not shared)
        """Refuse: several processes cannot share virtual time."""
        raise Refused(
            "VirtualTime",
            "virtual time works with a single process only; use a data folder or --memory, or a "
            "real clock",
        )

    def _set(self, now: float) -> None:
        self._base = now
        self._since = time.monotonic()
        for watcher in self.watchers:
            watcher()

    def _arm(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._rate and self._alarms:
            wait = max(self._alarms[0][0] - self.now(), 0) / self._rate
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(min(wait, _LONGEST_WAIT_SECONDS), self._fire_due)

    def _fire_due(self) -> None:
        try:
            while self._alarms and self._alarms[0][0] <= self.now():
                heapq.heappop(self._alarms)[2].fire()
        finally:  # a callback that fails stops no other
            self._arm()


Clock = RealClock | VirtualClock

_ALARMS = 64

_FARTHEST_SECONDS = 366 * 24 * 3600
_FASTEST = 1_000_000.0


async def _do_nothing() -> None:
    """Wait for nothing."""
