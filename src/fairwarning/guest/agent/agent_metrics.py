"""The agent's metrics, in Prometheus's text format. Those about Kubernetes are set by its hooks.

Every value of a label is named by `create`, so that all series exist from the start. Labels must
have few values: never an event's id.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from datetime import datetime

from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.event_state import ApprovalResult
from fairwarning.guest.events import Event, EventType, Phase

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


# --- The agent's ----------------------------------------------------------------------------------


OK, FAILED, STOPPED = "ok", "failed", "stopped"
SENT, DROPPED = "sent", "dropped"
OTHER_TYPE = "other"  # a type that we do not know: its name must not become a label value

READINGS = CounterFamily(
    "readings_total",
    "Waits for a document that ended with one (ok); requests for it that failed (failed).",
    ["result"],
)
MALFORMED_EVENTS = CounterFamily(
    "malformed_events_total", "Events that were skipped, as the endpoint sent them malformed."
)
LAST_READING = GaugeFamily(
    "last_reading_timestamp_seconds",
    "Unix time of the last document that was read; 0 before the first.",
)
EVENTS = CounterFamily(
    "events_total", "Events that reached a phase, by event type.", ["type", "phase"]
)
NEXT_EVENT = GaugeFamily(
    "next_event_seconds",
    "Time until the earliest NotBefore of this machine's events; NaN if none is ahead.",
)
HOOKS = CounterFamily(
    "hooks_total",
    "Hooks that ended: ok, failed, or stopped because their event was over.",
    ["hook", "phase", "result"],
)
HOOK_SECONDS = HistogramFamily(
    "hook_duration_seconds", "How long hooks ran.", ["hook", "phase"], (1, 10, 60, 300, 1800)
)
HOOKS_TO_RETRY = GaugeFamily(
    "hooks_to_retry", "Failed hooks of phase over that wait to be tried again."
)
APPROVALS = CounterFamily(
    "approvals_total",
    "Approvals: accepted or refused by the endpoint, or failed attempts, which are repeated.",
    ["result"],
)
EVENT_ERRORS = CounterFamily(
    "event_errors_total",
    "Steps for an event that failed by an error in the agent; other events are not affected.",
)
LOG_LINES_DROPPED = CounterFamily(
    "log_lines_dropped_total", "Lines of the log that were dropped because nobody read them."
)
JOURNAL_FAILING = GaugeFamily(
    "journal_failing", "1 while the agent cannot write its journal, else 0."
)
NOTIFICATIONS = CounterFamily(
    "notifications_total",
    "Notifications: sent, failed after all attempts, or dropped because too many waited.",
    ["notification", "result"],
)

# Of Kubernetes; 0 elsewhere.
PODS_LEFT = GaugeFamily("pods_left", "Pods that a running drain still has to evict.")
PODS_BLOCKED = GaugeFamily(
    "pods_blocked", "Pods that a running drain cannot evict yet because of a disruption budget."
)
NODES_WITHOUT_EVENT = GaugeFamily(
    "nodes_marked_without_event", "1 while this machine's node has marks of an event that is over."
)

FAMILIES = (
    *(READINGS, MALFORMED_EVENTS, LAST_READING, EVENTS, NEXT_EVENT, HOOKS),
    *(HOOK_SECONDS, HOOKS_TO_RETRY, APPROVALS, EVENT_ERRORS, LOG_LINES_DROPPED),
    *(JOURNAL_FAILING, NOTIFICATIONS, PODS_LEFT, PODS_BLOCKED, NODES_WITHOUT_EVENT),
)
"""The metrics that the agent's health server shows."""


def create_series(config: AgentConfig) -> None:
    """Make every series exist that this configuration can produce."""
    for result in (OK, FAILED):
        READINGS.create(result)
    MALFORMED_EVENTS.create()
    for approval in ApprovalResult:
        APPROVALS.create(str(approval))
    for event_type in (*EventType, OTHER_TYPE):
        for phase in (Phase.SCHEDULED, Phase.STARTED, Phase.OVER):
            EVENTS.create(str(event_type), str(phase))
    for hook in config.hooks:
        HOOK_SECONDS.create(hook.name, str(hook.phase))
        for result in (OK, FAILED, STOPPED):
            HOOKS.create(hook.name, str(hook.phase), result)
    NEXT_EVENT.set(math.nan)


def type_label(event: Event) -> str:
    """Return an event's type as a label value."""
    return str(event.type) if isinstance(event.type, EventType) else OTHER_TYPE


def seconds_to_next(events: Iterable[Event], now: datetime) -> float:
    """Return the time to the earliest NotBefore of these events; NaN if there is none."""
    left = [
        (event.not_before - now).total_seconds()
        for event in events
        if event.not_before is not None and not event.started
    ]
    return min(left, default=math.nan)
