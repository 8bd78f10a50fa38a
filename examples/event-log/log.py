"""Writes a JSON line for whatever happens to an event, for a log collector to pick up.

It approves nothing: it may run beside any handler, and needs no right to do anything.
"""

import json
from datetime import UTC, datetime

from fairwarning import Change, ScheduledEvents


def line(change: Change, me: str) -> str:
    """One line, with a time and names that stay the same."""
    event = change.event
    told = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "machine": me,
        "phase": change.phase,
        "cancelled": change.cancelled,
        "event": event.id,
        "type": event.type,
        "status": event.status,
        "source": event.source,
        "resources": event.resources,
        "concerns_me": event.concerns(me),
        "not_before": event.not_before and event.not_before.isoformat(),
        "duration_seconds": event.duration and event.duration.total_seconds(),
        "description": event.description,
    }
    return json.dumps(told)


if __name__ == "__main__":
    with ScheduledEvents() as client:
        me = client.me()
        for change in client.watch():
            print(line(change, me), flush=True)
