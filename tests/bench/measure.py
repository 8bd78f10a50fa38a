"""How figures are taken: CPU time first, wall time second, rounds in turn, medians."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Self, TypeVar

T = TypeVar("T")

MILLI = 1e3
MICRO = 1e6


@dataclass(frozen=True, slots=True)
class Sample:
    """What doing something `count` times took, in seconds."""

    count: int
    cpu: float  # of all threads
    own: float  # CPU of the thread that asked: the event loop's
    wall: float

    @property
    def cpu_us(self) -> float:
        """CPU microseconds for one."""
        return self.cpu / self.count * MICRO

    @property
    def own_us(self) -> float:
        """CPU microseconds of the asking thread for one."""
        return self.own / self.count * MICRO

    @property
    def wall_us(self) -> float:
        """Microseconds for one."""
        return self.wall / self.count * MICRO

    @property
    def rate(self) -> float:
        """How many a second."""
        return self.count / self.wall

    def plain(self) -> dict[str, float]:
        """For another process to read."""
        return asdict(self)


class Stopwatch:
    """Runs from here on; take the sample once what is measured is over."""

    def __init__(self) -> None:
        self._cpu, self._own, self._wall = _now()

    def passed(self) -> float:
        """Seconds of wall time so far."""
        return time.perf_counter() - self._wall

    def sample(self, count: int) -> Sample:
        """What it took to do it `count` times."""
        cpu, own, wall = _now()
        return Sample(count, cpu - self._cpu, own - self._own, wall - self._wall)


def _now() -> tuple[float, float, float]:
    return time.process_time(), time.thread_time(), time.perf_counter()


def in_turn(
    contenders: Mapping[str, Callable[[], T]], rounds: int, step: Callable[[], None]
) -> dict[str, list[T]]:
    """Let each run once, then each again: what disturbs the machine disturbs all alike."""
    taken: dict[str, list[T]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            taken[name].append(run())
            step()
    return taken


def middle(samples: Sequence[Sample]) -> Sample:
    """One of many, with the median of each time."""
    return Sample(
        1,
        median(sample.cpu / sample.count for sample in samples),
        median(sample.own / sample.count for sample in samples),
        median(sample.wall / sample.count for sample in samples),
    )


def repeat(act: Callable[[], object], seconds: float, at_once: int = 100) -> Sample:
    """Do it again and again for so many seconds; once before, unmeasured."""
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
    """What a table shows of durations in seconds."""
    shown = {"p50 ms": 0.5, "p99 ms": 0.99, "worst ms": 1.0}
    return {head: percentile(laps, share) * MILLI for head, share in shown.items()}


class Laps:
    """Durations gathered one by one, in seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def add(self, since: float) -> Self:
        """From then until now."""
        self.seconds.append(time.perf_counter() - since)
        return self

    def us(self, share: float) -> float:
        """The percentile in microseconds."""
        return percentile(self.seconds, share) * MICRO
