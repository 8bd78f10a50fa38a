"""Fleet time on one host: steps of the wall clock, restarts and reboots shorten no notice (E11).

Fleet time is wall time when it is first read, and a monotonic clock advances it. The offset between
the two is stored with each notice, so a process that starts in the same boot continues it.

If the wall clock is stepped, fleet time differs from it until no notice is pending. Then fleet time
jumps forwards, or runs at half speed until the wall clock has caught up.

After a reboot of the host, a step cannot be told from the time that the host was down: wall time is
believed. But fleet time does not run backwards, and a known step ahead is still not followed. If
the wall clock is early after the boot, its next step forwards sets it right and is followed.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairwarning.store.elapsed_time import elapsed_time
from fairwarning.store.store import ClockReading

TOLERANCE_SECONDS = 2.0  # a larger difference from wall time is reported
_IGNORED_SECONDS = 0.01  # the two clocks cannot be read at the same instant
_NEWS_SECONDS = 0.5  # a smaller change is not stored by itself
_SLOW_SHARE = 0.5  # of real time, by which fleet time is slowed down
_LONGEST_SECONDS = 5.0  # between two comparisons; a process may have been stopped in between
_STANDSTILL_SECONDS = _LONGEST_SECONDS
"""While it is slowed down, fleet time stands still at times: the last line may be later."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE = Path("/proc/self/ns/time")
_BOOT_ID_VARIABLE = "FAIRWARNING_BOOT_ID"  # for a sandbox that hides the boot id
_MARK = "real"
_UNKNOWN_BOOT = "unknown"


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
    binding_until: float = 0.0  # until then, fleet time must not jump forwards
    promised_until: float = 0.0  # until then, it must not be slowed down either
    behind: float = 0.0  # by which it is behind the right wall time, if known; negative: ahead
    early: float = 0.0  # by which wall time is too early since the boot, until it is set right

    def __str__(self) -> str:
        numbers = (self.offset, self.binding_until, self.promised_until, self.behind, self.early)
        return " ".join((_MARK, self.boot or _UNKNOWN_BOOT, *map(repr, numbers)))


def _parse(state: str) -> _Line | None:
    """Return the stored line; None if the state is that of a virtual clock."""
    if not state.startswith(_MARK):
        return None
    _, boot, *numbers = state.split()
    return _Line(boot.replace(_UNKNOWN_BOOT, ""), *map(float, numbers))


class HostTime:
    """Fleet time, and its difference from wall time."""

    def __init__(self, clocks: HostClocks | None = None) -> None:
        self._clocks = clocks or HostClocks()
        self._followed_at = self._clocks.monotonic()
        self._line = _Line(self._clocks.boot(), self._clocks.wall() - self._followed_at)
        self._last = 0.0
        self._is_shared = False
        self.ahead = 0.0  # seconds by which fleet time was ahead of wall time when last compared

    def now(self) -> float:
        """Fleet time. It never runs backwards."""
        now = self._clocks.monotonic() + self._line.offset
        if now < self._last:
            return self._last
        self._last = now
        return now

    def state(self) -> str:
        """What `restore` needs."""
        return str(self._line)

    def differs_from(self, state: str) -> bool:
        """Whether a process that restores this state would continue another time."""
        line, stored = self._line, _parse(state)
        if stored is None:  # nothing was announced yet
            return False
        changes = (
            line.offset - stored.offset,
            line.behind - stored.behind,
            line.early - stored.early,
        )
        return max(map(abs, changes)) >= _NEWS_SECONDS

    def restore(self, state: str, last: float) -> None:
        """Continue after a process that stored this state; `last` is the time of its last line."""
        stored, monotonic = _parse(state), self._clocks.monotonic()
        if stored is None:
            return
        is_plausible = monotonic + stored.offset >= last - _STANDSTILL_SECONDS
        if stored.boot and stored.boot == self._line.boot and is_plausible:
            self._line, self._last = stored, last
            self.follow_wall()  # a process that ended before may have done so, and not stored it
        else:
            self._continue_after_reboot(stored, last)

    def _continue_after_reboot(self, stored: _Line, last: float) -> None:
        line, wall_offset = self._line, self._line.offset
        least_offset, expected = last - self._clocks.monotonic(), wall_offset - stored.behind
        # Whether the wall clock is wrong, and will be set right.
        is_early = expected < least_offset - _STANDSTILL_SECONDS
        knows_step = stored.behind > TOLERANCE_SECONDS
        # What was promised while the clock was early is in a time that may lack the time before it.
        is_bound = stored.early > 0 and stored.binding_until > last
        line.promised_until = stored.promised_until
        line.binding_until = stored.promised_until
        if is_early and not knows_step:
            line.binding_until = stored.binding_until if is_bound else 0.0
        line.offset = least_offset if is_bound else max(expected, least_offset)
        if is_early:
            line.behind, line.early = stored.behind, line.offset - expected
        else:
            line.behind = wall_offset - line.offset

    def promise(self, moment: float) -> None:
        """Keep fleet time as it is until this moment: it was announced to somebody."""
        line = self._line
        line.binding_until = max(line.binding_until, moment)
        line.promised_until = max(line.promised_until, moment)

    def synchronize(self, reading: ClockReading) -> None:
        """Follow the time that all processes share: forwards at once, backwards at half speed."""
        least, most = reading.now - reading.received_at, reading.now - reading.sent_at
        elapsed = reading.received_at - self._followed_at
        if not self._is_shared:
            self._is_shared, self._last, self._line.offset = True, 0.0, (least + most) / 2
        elif self._line.offset < least:
            self._line.offset = least
        elif self._line.offset > most:
            self._line.offset -= min(self._line.offset - most, elapsed * _SLOW_SHARE)
        self._followed_at = reading.received_at
        self.ahead = reading.ahead

    def follow_wall(self) -> float:
        """Compare with wall time, and return to it while nothing is promised.

        Return the seconds that fleet time jumped forwards.
        """
        now, monotonic = self.now(), self._clocks.monotonic()
        elapsed = min(monotonic - self._followed_at, _LONGEST_SECONDS)
        self._followed_at = monotonic
        line, wall_offset, jump = self._line, self._clocks.wall() - monotonic, 0.0
        self.ahead = now - monotonic - wall_offset
        early = line.offset - (wall_offset - line.behind)
        is_set_right = 0 < line.early > early + TOLERANCE_SECONDS
        if self.ahead < -_IGNORED_SECONDS and now >= line.binding_until:
            jump, self.ahead = -self.ahead, 0.0
            line.offset += jump
        elif self.ahead > _IGNORED_SECONDS and now >= line.promised_until:
            slower = min(self.ahead, elapsed * _SLOW_SHARE)
            line.offset -= slower
            line.early = max(0.0, line.early - slower)
            self.ahead -= slower
        if is_set_right or jump:
            line.early, line.binding_until = 0.0, line.promised_until
        if not line.early:  # by the line: `now` is later while fleet time stands still
            line.behind = round(wall_offset - line.offset, 1)
        return jump
