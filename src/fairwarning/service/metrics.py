"""Metrics of a running service, independent of the exporter."""

from collections.abc import Mapping
from dataclasses import field

from fairwarning.core.record import record


@record
class Metric:
    """A metric, with one value or one value per label."""

    name: str
    help: str
    gauge: bool = False  # else a counter
    label: str = ""
    values: Mapping[str, float] = field(default_factory=dict)  # by the label's value, or by ""


def counter(name: str, text: str, value: float) -> Metric:
    """Return a counter."""
    return Metric(name=name, help=text, values={"": value})


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a gauge."""
    return Metric(name=name, help=text, gauge=True, values={"": value})


def counters(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """Return a counter with one value per label."""
    return Metric(name=name, help=text, label=label, values=dict(values))
