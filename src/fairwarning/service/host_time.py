"""Fleet time on one host: no step, suspension, restart or reboot shortens a notice (E11).

The rule and its cases are in `docs/time.md`. Fleet time counts what a monotonic clock has counted.
It differs from wall time after a step or a reboot, and returns to it only while nothing is
promised, forwards only once that clock can be believed: time that did not pass would end what is
kept for days. The times that machines read are in wall time meanwhile: see `ahead_seconds`.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from math import floor, isfinite, nan
from pathlib import Path
from urllib.parse import quote

from fairwarning.store.elapsed_time import elapsed_time
from fairwarning.store.store import ClockReading

TOLERANCE_SECONDS = 2.0  # a larger difference from wall time is reported, and not published
BELIEVED_SECONDS = 120.0
"""A clock that is later than fleet time for so long, by the same difference, is believed."""
_IGNORED_SECONDS = 0.01  # the two clocks cannot be read at the same instant
_NEWS_SECONDS = 0.5  # a smaller change is not stored by itself
_SLOW_SHARE = 0.5  # of real time, by which fleet time is slowed down
_LONGEST_SECONDS = 5.0  # between two comparisons; a process may have been stopped in between
_STANDSTILL_SECONDS = _LONGEST_SECONDS
"""While it is slowed down, fleet time stands still at times: the last line may be later."""
_STORED_SECONDS = 60.0  # while something is promised, the time is stored as often
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE = Path("/proc/self/ns/time")
_BOOT_ID_VARIABLE = "FAIRWARNING_BOOT_ID"  # for a sandbox that hides the boot id
_MARK = "real"
_UNKNOWN_BOOT = "unknown"
_NUMBERS = 3  # at the end of a state


class HostClocks:
    """The clocks of this host. Tests replace them."""

    def wall(self) -> float:
        """Seconds since the epoch, as the host believes."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that no step changes; they include suspended time where the OS supports it."""
        return elapsed_time()

    def boot(self) -> str:
        """What `monotonic` counts from: the boot and the time namespace; empty if unknown."""
        boot = os.environ.get(_BOOT_ID_VARIABLE, "")
        with suppress(OSError):  # systems other than Linux have neither file
            boot = boot or _BOOT_ID.read_text().strip()
            boot = f"{boot}/{_TIME_NAMESPACE.readlink()}"
        return boot


@dataclass(slots=True)
class _Line:
    """A straight line from monotonic to fleet time, and what was promised on it."""

    boot: str
    offset: float
    promised_until: float = 0.0  # until then, fleet time keeps to the line
    reached: float = 0.0  # fleet time was at least this: where it continues after a reboot

    def __str__(self) -> str:
        numbers = (self.offset, self.promised_until, self.reached)
        return " ".join((_MARK, self.boot or _UNKNOWN_BOOT, *map(repr, numbers)))


def _parse(state: str) -> _Line | None:
    """Return the stored line; None if the state is that of a virtual clock.

    An earlier version stored boot ids with spaces. Of an unreadable state nothing is known.
    """
    mark, *words = state.split() or [""]
    if mark != _MARK:
        return None
    numbers = list(map(_number, words[-_NUMBERS:]))
    if len(words) <= _NUMBERS or not all(map(isfinite, numbers)):
        return _Line("", 0.0)
    boot = " ".join(words[:-_NUMBERS])
    return _Line("" if boot == _UNKNOWN_BOOT else boot, *numbers)


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return nan


def _one_word(boot: str) -> str:
    """A boot id, which may come from the environment, without what the state cannot contain."""
    return quote(boot, safe="/:[]", errors="surrogateescape")


class HostTime:
    """Fleet time, and its difference from wall time."""

    def __init__(self, clocks: HostClocks | None = None) -> None:
        self._clocks = clocks or HostClocks()
        self._followed_at = self._clocks.monotonic()
        self._line = _Line(_one_word(self._clocks.boot()), self._clocks.wall() - self._followed_at)
        self._last = 0.0
        self._behind = 0.0  # wall time minus fleet time, and since when it has been so much
        self._behind_since = self._followed_at
        self._shared_ahead: float | None = None  # None: this host has its own time
        self.error_seconds = 0.0
        """By which this process may differ from the shared time, at most."""

    def now(self) -> float:
        """Fleet time. It never runs backwards."""
        now = self._clocks.monotonic() + self._line.offset
        if now < self._last:
            return self._last
        self._last = now
        return now

    @property
    def ahead(self) -> float:
        """Seconds by which fleet time is ahead of wall time."""
        if self._shared_ahead is not None:
            return self._shared_ahead
        return self.now() - self._clocks.wall()

    def ahead_seconds(self) -> int:
        """What to subtract from a moment in fleet time to publish it; 0 within the tolerance."""
        ahead = self.ahead
        return floor(ahead) if abs(ahead) > TOLERANCE_SECONDS else 0

    def state(self) -> str:
        """What `restore` needs."""
        self._line.reached = self.now() // _STORED_SECONDS * _STORED_SECONDS
        return str(self._line)

    def differs_from(self, state: str) -> bool:
        """Whether a process that restores this state would continue another time."""
        line, stored, now = self._line, _parse(state), self.now()
        if stored is None:  # nothing was announced yet
            return False
        is_old = now < line.promised_until and now >= stored.reached + _STORED_SECONDS
        return is_old or abs(line.offset - stored.offset) >= _NEWS_SECONDS

    def restore(self, state: str, last: float) -> None:
        """Continue after a process that stored this state; `last` is the time of its last line.

        After a reboot nothing proves how long the host was down: a step of the wall clock looks
        the same. So fleet time continues where it was.
        """
        stored, monotonic = _parse(state), self._clocks.monotonic()
        if stored is None:
            return
        is_plausible = monotonic + stored.offset >= last - _STANDSTILL_SECONDS
        if not (stored.boot and stored.boot == self._line.boot and is_plausible):
            stored.boot, stored.offset = self._line.boot, max(last, stored.reached) - monotonic
        self._line, self._last = stored, last

    def promise(self, moment: float) -> None:
        """Keep fleet time as it is until this moment: it was announced to somebody."""
        self._line.promised_until = max(self._line.promised_until, moment)

    def synchronize(self, reading: ClockReading) -> None:
        """Follow the time that all processes share: forwards at once, backwards at half speed."""
        offset, elapsed = self._line.offset, reading.at - self._followed_at
        if self._shared_ahead is None:
            self._last, offset = 0.0, (reading.least + reading.most) / 2
        elif offset < reading.least:
            offset = reading.least
        elif offset > reading.most:
            offset -= min(offset - reading.most, elapsed * _SLOW_SHARE)
        self._line.offset, self._followed_at = offset, reading.at
        self._shared_ahead = reading.ahead
        self.error_seconds = max(reading.most - offset, offset - reading.least)

    def follow_wall(self) -> float:
        """Return to wall time while nothing is promised; backwards at half speed.

        Forwards at once, but by more than the tolerance only if that clock can be believed. Return
        the seconds that fleet time jumped forwards.
        """
        now, monotonic = self.now(), self._clocks.monotonic()
        elapsed = min(monotonic - self._followed_at, _LONGEST_SECONDS)
        self._followed_at = monotonic
        behind = self._clocks.wall() - now
        if abs(behind - self._behind) > TOLERANCE_SECONDS:
            self._behind, self._behind_since = behind, monotonic
        is_believed = monotonic - self._behind_since >= BELIEVED_SECONDS
        if now < self._line.promised_until or abs(behind) <= _IGNORED_SECONDS:
            return 0.0
        if behind < 0:
            self._line.offset -= min(-behind, elapsed * _SLOW_SHARE)
            return 0.0
        if behind > TOLERANCE_SECONDS and not is_believed:
            return 0.0
        self._line.offset = now + behind - monotonic
        return behind
