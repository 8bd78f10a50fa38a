"""The agent's own metrics. Those about Kubernetes are set by its hooks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.event_state import ApprovalResult
from fairwarning.guest.agent.metrics import CounterFamily, GaugeFamily, HistogramFamily
from fairwarning.guest.events import Event, EventType, Phase

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
