"""All time comes from one clock (E11): real, or virtual (frozen, advanced by hand, or running)."""

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Protocol

from fairwarning.core.errors import Refused

Callback = Callable[[], None]


class Alarm:
    """A callback that is going to be called."""

    __slots__ = ("callback", "timer")

    def __init__(self, callback: Callback) -> None:
        self.callback: Callback | None = callback
        self.timer: asyncio.TimerHandle | None = None

    def ring(self) -> None:
        """Call back, once, unless cancelled."""
        callback, self.callback = self.callback, None
        if callback:
            callback()

    def cancel(self) -> None:
        """Do not call after all."""
        self.callback = None
        if self.timer:
            self.timer.cancel()


class Clock(Protocol):
    """The time, and a way to be called at one."""

    def now(self) -> float:
        """Seconds since the epoch. Never runs backwards within a process."""

    def call_at(self, moment: float, callback: Callback) -> Alarm:
        """Call back when that moment is reached."""

    def state(self) -> str:
        """What a restart must know; empty when nothing."""

    def restore(self, state: str) -> None:
        """Take up where a process before this one stopped."""

    def agree(self, now: float) -> None:
        """Go by the time that all processes of a fleet go by. Only before anything has begun."""


class RealClock:
    """Wall time, taken once and carried on by a clock that nobody sets.

    A step of the wall clock while we run can therefore not eat an event's notice (IL4).
    """

    def __init__(self) -> None:
        self._ahead = time.time() - _steady()

    def now(self) -> float:
        """Seconds since the epoch."""
        return _steady() + self._ahead

    def call_at(self, moment: float, callback: Callback) -> Alarm:
        """Call back when that moment is reached, never before."""
        alarm = Alarm(callback)
        self._arm(alarm, moment)
        return alarm

    def _arm(self, alarm: Alarm, moment: float) -> None:
        def check() -> None:
            # The loop's clock may stand still while the machine sleeps, or round down.
            if self.now() < moment:
                self._arm(alarm, moment)
            else:
                alarm.ring()

        wait = min(max(moment - self.now(), 0), _LONGEST_WAIT_SECONDS)
        alarm.timer = asyncio.get_running_loop().call_later(wait, check)

    def state(self) -> str:
        """Nothing: the world keeps real time."""
        return ""

    def restore(self, state: str) -> None:
        """Nothing to take up."""

    def agree(self, now: float) -> None:
        """Hosts' clocks differ; a notice must not be shorter for that."""
        self._ahead = now - _steady()


_LONGEST_WAIT_SECONDS = 3600.0


def _steady() -> float:
    """Seconds that only ever grow, and that count while the machine sleeps where the OS can."""
    return time.clock_gettime(_STEADY)


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class VirtualClock:
    """Time that stands still unless advanced, or that runs at a multiple of real time."""

    def __init__(self, start: float = 0.0) -> None:
        self._base = start
        self._rate = 0.0
        self._since = time.monotonic()
        self._alarms: list[tuple[float, int, Alarm]] = []
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self.settled: Callable[[], Awaitable[None]] = _nothing
        """Awaited between two alarms while time is advanced: what the first caused comes first."""

    def now(self) -> float:
        """Virtual seconds since the epoch."""
        if not self._rate:
            return self._base
        return self._base + (time.monotonic() - self._since) * self._rate

    @property
    def rate(self) -> float:
        """Virtual seconds a real second; 0 is frozen."""
        return self._rate

    def call_at(self, moment: float, callback: Callback) -> Alarm:
        """Call back when virtual time reaches that moment."""
        alarm = Alarm(callback)
        heapq.heappush(self._alarms, (moment, next(self._order), alarm))
        self._arm()
        return alarm

    async def advance(self, seconds: float) -> None:
        """Let virtual time pass, stopping at every alarm on the way."""
        if not 0 <= seconds <= _FARTHEST_SECONDS:
            raise Refused("BadAdvance", f"advance by 0 to {_FARTHEST_SECONDS} seconds")
        await self.settled()
        goal = self.now() + seconds
        while self._alarms and self._alarms[0][0] <= goal:
            moment, _, alarm = heapq.heappop(self._alarms)
            self._set(max(moment, self.now()))
            alarm.ring()
            await self.settled()
        self._set(max(goal, self.now()))
        self._arm()

    def run(self, rate: float) -> None:
        """Run at a multiple of real time from now on; 0 freezes."""
        if not 0 <= rate <= _FASTEST:
            raise Refused("BadRate", f"run at 0 (frozen) to {_FASTEST:g} times real time")
        now = self.now()
        self._rate = rate
        self._set(now)
        self._arm()

    def freeze(self) -> None:
        """Stand still from now on."""
        self.run(0.0)

    def state(self) -> str:
        """Virtual time survives a restart: it goes on from the last committed moment."""
        return f"{self.now()!r} {self._rate!r}"

    def restore(self, state: str) -> None:
        """Take up time and rate."""
        now, rate = map(float, state.split())
        self._rate = rate
        self._set(max(self._base, now))

    def agree(self, now: float) -> None:  # noqa: ARG002  (no process knows the others' time)
        """Nobody else can follow it."""
        raise Refused(
            "VirtualTime",
            "virtual time is for one process; use a data folder or --memory, or a real clock",
        )

    def _set(self, now: float) -> None:
        self._base = now
        self._since = time.monotonic()

    def _arm(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._rate and self._alarms:
            wait = max(self._alarms[0][0] - self.now(), 0) / self._rate
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(min(wait, _LONGEST_WAIT_SECONDS), self._ring)

    def _ring(self) -> None:
        while self._alarms and self._alarms[0][0] <= self.now():
            heapq.heappop(self._alarms)[2].ring()
        self._arm()


_FARTHEST_SECONDS = 366 * 24 * 3600
_FASTEST = 1_000_000.0


async def _nothing() -> None:
    """Nobody to wait for."""
