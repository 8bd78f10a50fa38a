"""The agent's log on standard error: plain lines, or one JSON object per line."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from types import TracebackType
from typing import Any

from fairwarning.core import times
from fairwarning.guest.events import Event
from fairwarning.guest.text_enum import StrEnum

FIELDS = (
    *("event_id", "event_type", "machine", "not_before", "deadline", "decision"),
    *("hook", "phase", "seconds", "result"),
)
"""The fields that a record may have beside its message, passed with `extra`."""

_PLAIN = "%(asctime)s %(levelname)s %(message)s"
log = logging.getLogger(__name__)


def event_fields(event: Event, machine: str, **more: object) -> dict[str, object]:
    """Return the fields of a record about an event, for `extra`."""
    not_before = event.not_before
    return {
        "event_id": event.id,
        "event_type": str(event.type),
        "machine": machine,
        "not_before": times.iso(int(not_before.timestamp())) if not_before else "",
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


def configure_logging(log_format: LogFormat, *, verbose: bool = False) -> None:
    """Send all logs to standard error, and uncaught errors and warnings of Python to the log."""
    handler = logging.StreamHandler(sys.stderr)
    is_json = log_format is LogFormat.JSON
    handler.setFormatter(AgentJsonFormatter() if is_json else logging.Formatter(_PLAIN))
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=True)
    if is_json:
        logging.captureWarnings(capture=True)
        sys.excepthook = _log_uncaught
        threading.excepthook = _log_uncaught_in_thread


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    log.critical("uncaught error: %s", error, exc_info=(kind, error, trace))


def _log_uncaught_in_thread(arguments: threading.ExceptHookArgs) -> None:
    error = arguments.exc_value
    if error is None or isinstance(error, SystemExit):
        return
    thread = arguments.thread.name if arguments.thread else "unknown"
    log.critical(
        *("uncaught error in thread %s: %s", thread, error),
        exc_info=(arguments.exc_type, error, arguments.exc_traceback),
    )
