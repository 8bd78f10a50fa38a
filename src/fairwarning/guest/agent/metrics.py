"""Counters, gauges and histograms in Prometheus's text format. Thread-safe.

Every value of a label is named by `create`, so that all series exist from the start. Labels must
have few values: never an event's id.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence

PREFIX = "fairwarning_agent_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Values = tuple[str, ...]


class MetricFamily:
    """A metric: one number for each combination of label values."""

    kind = "untyped"

    def __init__(self, name: str, meaning: str, labels: Sequence[str] = ()) -> None:
        self.name = PREFIX + name
        self.meaning = meaning
        self.labels = tuple(labels)
        self._lock = threading.Lock()
        self._numbers: dict[Values, float] = {}
        if not labels:
            self.create()

    def create(self, *values: str) -> None:
        """Make a series exist, with the value 0."""
        with self._lock:
            self._numbers.setdefault(values, 0.0)

    def value(self, *values: str) -> float:
        """Return the number of a series."""
        with self._lock:
            return self._numbers.get(values, 0.0)

    def samples(self) -> list[str]:
        """Return the lines of all series."""
        with self._lock:
            numbers = sorted(self._numbers.items())
        return [f"{self.name}{_labels(self.labels, key)} {number(n)}" for key, n in numbers]


class CounterFamily(MetricFamily):
    """A number that only grows; its name ends in `_total`."""

    kind = "counter"

    def add(self, *values: str) -> None:
        """Count one."""
        with self._lock:
            self._numbers[values] = self._numbers.get(values, 0.0) + 1


class GaugeFamily(MetricFamily):
    """A number that rises and falls."""

    kind = "gauge"

    def set(self, amount: float, *values: str) -> None:
        """Replace the number of a series."""
        with self._lock:
            self._numbers[values] = float(amount)


class HistogramFamily(MetricFamily):
    """How often something took how long; its name ends in the unit."""

    kind = "histogram"

    def __init__(
        self, name: str, meaning: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> None:
        self._bounds = (*bounds, math.inf)
        self._counts: dict[Values, list[int]] = {}
        super().__init__(name, meaning, labels)

    def create(self, *values: str) -> None:
        """Make the series of these label values exist."""
        super().create(*values)
        with self._lock:
            self._counts.setdefault(values, [0] * len(self._bounds))

    def observe(self, amount: float, *values: str) -> None:
        """Record one observation."""
        self.create(*values)
        with self._lock:
            self._numbers[values] += amount
            for position, bound in enumerate(self._bounds):
                self._counts[values][position] += amount <= bound

    def samples(self) -> list[str]:
        """Return the buckets, the sum and the count of all series."""
        with self._lock:
            series = [(key, n, list(self._counts[key])) for key, n in sorted(self._numbers.items())]
        lines = []
        for key, total, counts in series:
            for bound, count in zip(self._bounds, counts):
                labels = _labels((*self.labels, "le"), (*key, number(bound)))
                lines.append(f"{self.name}_bucket{labels} {count}")
            labels = _labels(self.labels, key)
            lines.append(f"{self.name}_sum{labels} {number(total)}")
            lines.append(f"{self.name}_count{labels} {counts[-1]}")
        return lines


def render(families: Iterable[MetricFamily]) -> str:
    """Return all series as text."""
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escape_help(family.meaning)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += family.samples()
    return "\n".join([*lines, ""])


# --- Text format ----------------------------------------------------------------------------------


def number(value: float) -> str:
    """Write a number with all its digits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in zip(names, values))
    return f"{{{pairs}}}" if pairs else ""


def _escape(value: str) -> str:
    value = value.encode("utf-8", "replace").decode()
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
