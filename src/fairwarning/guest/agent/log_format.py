"""The agent's log on standard error: plain lines, or one JSON object per line."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.events import Event, date_text
from fairwarning.guest.log_writer import LogWriter
from fairwarning.guest.text_enum import StrEnum

FIELDS = (
    *("event_id", "event_type", "machine", "not_before", "deadline", "decision"),
    *("hook", "phase", "seconds", "result"),
)
"""The fields that a record may have beside its message, passed with `extra`."""

_PLAIN = "%(asctime)s %(levelname)s %(message)s"


def event_fields(event: Event, machine: str, **more: object) -> dict[str, object]:
    """Return the fields of a record about an event, for `extra`."""
    return {
        "event_id": event.id,
        "event_type": str(event.type),
        "machine": machine,
        "not_before": date_text(event.not_before),
        **more,
    }


class LogFormat(StrEnum):
    """How the agent writes its log."""

    TEXT = "text"
    JSON = "json"


class AgentJsonFormatter(logging.Formatter):
    """One JSON object per line, with the names that the service uses."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, logger, message, the fields of the record, and any traceback."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = value if isinstance(value, (int, float)) else str(value)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure_logging(log_format: LogFormat, *, verbose: bool = False) -> LogWriter:
    """Send all logs to standard error."""
    handler = LogWriter(sys.stderr, agent_metrics.LOG_LINES_DROPPED.add)
    is_json = log_format is LogFormat.JSON
    handler.setFormatter(AgentJsonFormatter() if is_json else logging.Formatter(_PLAIN))
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=True)
    return handler
