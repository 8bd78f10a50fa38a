"""Figures about a running service, whoever exports them."""

from collections.abc import Mapping
from dataclasses import field

from fairwarning.core.record import record


@record
class Metric:
    """A figure, or several that differ by one label."""

    name: str
    help: str
    gauge: bool = False  # it can also fall
    label: str = ""
    values: Mapping[str, float] = field(default_factory=dict)  # by the label's value, or by ""


def counter(name: str, text: str, value: float) -> Metric:
    """A number that only grows."""
    return Metric(name=name, help=text, values={"": value})


def gauge(name: str, text: str, value: float) -> Metric:
    """A number as it is now."""
    return Metric(name=name, help=text, gauge=True, values={"": value})


def counters(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """Numbers that only grow, by label."""
    return Metric(name=name, help=text, label=label, values=dict(values))
