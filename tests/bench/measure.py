"""Measurements: CPU time first, wall time second, alternating rounds, medians."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import TypeVar

T = TypeVar("T")

MILLI = 1e3
MICRO = 1e6


@dataclass(frozen=True, slots=True)
class Sample:
    """The time of `count` repetitions, in seconds."""

    count: int
    cpu: float  # of all threads
    own: float  # CPU of the measuring thread, which runs the event loop
    wall: float

    @property
    def cpu_us(self) -> float:
        """CPU microseconds per repetition."""
        return self.cpu / self.count * MICRO

    @property
    def own_us(self) -> float:
        """CPU microseconds of the measuring thread per repetition."""
        return self.own / self.count * MICRO

    @property
    def wall_us(self) -> float:
        """Microseconds per repetition."""
        return self.wall / self.count * MICRO

    @property
    def rate(self) -> float:
        """Repetitions per second."""
        return self.count / self.wall

    def plain(self) -> dict[str, float]:
        """The sample as JSON values."""
        return asdict(self)


class Stopwatch:
    """Measures from its creation to `sample`."""

    def __init__(self) -> None:
        self._cpu, self._own, self._wall = _now()

    def passed(self) -> float:
        """Seconds of wall time so far."""
        return time.perf_counter() - self._wall

    def sample(self, count: int) -> Sample:
        """The sample of `count` repetitions."""
        cpu, own, wall = _now()
        return Sample(count, cpu - self._cpu, own - self._own, wall - self._wall)


def _now() -> tuple[float, float, float]:
    return time.process_time(), time.thread_time(), time.perf_counter()


def middle(samples: Sequence[Sample]) -> Sample:
    """The sample of median times."""
    return Sample(
        1,
        median(sample.cpu / sample.count for sample in samples),
        median(sample.own / sample.count for sample in samples),
        median(sample.wall / sample.count for sample in samples),
    )


def repeat(act: Callable[[], object], seconds: float, at_once: int = 100) -> Sample:
    """Repeat a function for some seconds, after one unmeasured call."""
    act()
    count = 0
    watch = Stopwatch()
    while not count or watch.passed() < seconds:
        for _ in range(at_once):
            act()
        count += at_once
    return watch.sample(count)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def times_ms(laps: Sequence[float]) -> dict[str, float]:
    """The table columns for durations in seconds."""
    shown = {"p50 ms": 0.5, "p99 ms": 0.99, "worst ms": 1.0}
    return {head: percentile(laps, share) * MILLI for head, share in shown.items()}
