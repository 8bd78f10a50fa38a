"""Random sequences of what happens to the clocks of a host, and what must hold after each (E11).

    python -m tests.service.clock_sequences FIRST_SEED LAST_SEED

Pure: time is virtual, and the store is a variable. `true` is a clock that never errs.
"""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from fairwarning.service.host_time import TOLERANCE_SECONDS, HostClocks, HostTime

STEPS = 12
EXACT_SECONDS = 1e-5  # the resolution of a float that holds a date
STANDSTILL_SECONDS = 5.0  # by which fleet time may stand still after it was slowed down
STORED_SECONDS = 60.0  # while something is promised, fleet time is stored as often
PUBLISHED_SECONDS = TOLERANCE_SECONDS + 2  # NotBefore and the difference are whole seconds
_START = 1_800_000_000.0
_SIZES = (0.0, 0.001, 0.4, 1.0, 1.9, 3.0, 59.0, 61.0, 900.0, 3600.0, 90_000.0, 30 * 86_400.0)
_NOTICES = (30.0, 600.0, 900.0, 7 * 86_400.0)


@dataclass(slots=True)
class Promise:
    """A notice that was given."""

    given_at: float  # fleet time
    true: float
    not_before: int


class Host(HostClocks):
    """The clocks of a host, and the fleet time of the process that runs there."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.true = _START
        self._booted = _START - 1000.0
        self._boots = 1
        self._shift = self._size()
        self.promises: list[Promise] = []
        self.time = HostTime(self)
        self._last_line = self.time.now()
        self._stored = self.time.state()

    def wall(self) -> float:
        return self.true + self._shift

    def monotonic(self) -> float:
        return self.true - self._booted

    def boot(self) -> str:
        return f"boot-{self._boots}"

    def _size(self) -> float:
        return self.random.choice(_SIZES) * self.random.choice((-1, 1))

    # --- What happens ---

    def run(self) -> None:
        """Let many things happen, and check each."""
        for _ in range(STEPS):
            act: Callable[[], None] = self.random.choice(_ACTS).__get__(self)
            act()
            self.check()

    def pass_time(self) -> None:
        """Run, be suspended, or be stopped: the clocks are compared only at the end."""
        before, seconds = self.time.now(), self.random.choice(_SIZES)
        self.true += seconds
        self._check_passed(before, seconds - STANDSTILL_SECONDS)
        self.compare()

    def compare(self) -> None:
        """What the service does once a second."""
        self.time.follow_wall()
        if self.time.differs_from(self._stored):
            self._stored = self.time.state()

    def step(self) -> None:
        self._shift += self._size()

    def set_right(self) -> None:
        self._shift = 0.0

    def promise(self) -> None:
        """Announce something; the state of the clock is stored with it."""
        notice = self.random.choice(_NOTICES)
        now, ahead = self.time.now(), self.time.ahead_seconds()
        not_before = ceil(now + notice)
        off = not_before - ahead - (self.wall() + notice)
        assert -PUBLISHED_SECONDS <= off <= PUBLISHED_SECONDS, f"NotBefore is {off} s off"
        self.time.promise(not_before)
        self.promises.append(Promise(now, self.true, not_before))
        self._write_line(now)

    def commit(self) -> None:
        """Write a line about something else."""
        self._write_line(self.time.now())

    def _write_line(self, now: float) -> None:
        assert now >= self._last_line, "the journal runs backwards"
        self._last_line, self._stored = now, self.time.state()

    def restart(self) -> None:
        """Kill the process; start another one later."""
        before, seconds = self.time.now(), self.random.choice(_SIZES)
        self.true += seconds
        self._start()
        self._check_passed(before, seconds - STANDSTILL_SECONDS)

    def _start(self) -> None:
        self.time = HostTime(self)
        self.time.restore(self._stored, self._last_line)
        self._stored = self.time.state()

    def reboot(self) -> None:
        """Reboot; the wall clock may be another one after it."""
        self.compare()
        before = self.time.now()
        self._boots += 1
        self._booted = self.true + self.random.choice(_SIZES)
        self.true = self._booted + self.random.choice((0.0, 10.0))
        if self.random.random() < 0.5:
            self.step()
        self._start()
        self._check_passed(before, -STORED_SECONDS)

    # --- What must hold ---

    def _is_promised(self, now: float) -> bool:
        return any(now < promise.not_before for promise in self.promises)

    def _check_passed(self, before: float, seconds: float) -> None:
        """While something is promised, all time counts but that of a reboot."""
        if self._is_promised(before):
            passed = self.time.now() - before
            assert passed >= seconds - EXACT_SECONDS, f"due work is {seconds - passed:.3f} s late"

    def check(self) -> None:
        """Fleet time has counted no more of a notice than has passed."""
        now = self.time.now()
        for promise in self.promises:
            counted = min(now, promise.not_before) - promise.given_at
            passed = self.true - promise.true
            assert counted <= passed + EXACT_SECONDS, (
                f"{counted - passed:.3f} s of a notice were lost"
            )


_ACTS = (
    Host.pass_time, Host.pass_time, Host.compare, Host.step, Host.set_right, Host.promise,
    Host.promise, Host.commit, Host.restart, Host.reboot,
)  # fmt: skip


def main(first: int, last: int) -> None:
    """Run the sequences of these seeds."""
    for seed in range(first, last):
        try:
            Host(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    sys.stdout.write(f"{last - first} sequences\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
