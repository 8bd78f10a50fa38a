"""The agent's log on standard error: plain lines, or one JSON object per line."""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import time
from typing import Any, TextIO

from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.events import Event, date_text
from fairwarning.guest.text_enum import StrEnum

FIELDS = (
    *("event_id", "event_type", "machine", "not_before", "deadline", "decision"),
    *("hook", "phase", "seconds", "result"),
)
"""The fields that a record may have beside its message, passed with `extra`."""

MOST_LINES = 1000  # that wait to be written
FLUSH_SECONDS = 1.0  # for the last lines, when the agent ends
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


class LogWriter(logging.Handler):
    """Writes lines in a thread of its own: a pipe that nobody reads blocks no other thread.

    It keeps `MOST_LINES` and drops later ones, which are counted.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        try:  # without the stream's lock, which this thread would hold when Python ends
            self._descriptor: int | None = stream.fileno()
        except (OSError, ValueError, AttributeError):
            self._descriptor = None
        self._lines: queue.SimpleQueue[str | threading.Event] = queue.SimpleQueue()
        self._dropped = 0  # since the last line that was written
        threading.Thread(target=self._work, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record."""
        try:
            self.put(self.format(record))
        except Exception:  # noqa: BLE001  (as other handlers do)
            self.handleError(record)

    def put(self, text: str) -> None:
        """Queue a line, unless too many wait."""
        if self._lines.qsize() < MOST_LINES:
            self._lines.put(f"{text}\n")
        else:
            self._drop()

    def _drop(self) -> None:
        self._dropped += 1
        agent_metrics.LOG_LINES_DROPPED.add()

    def flush(self) -> None:
        """Wait a moment until all lines are written. Python calls it at its end."""
        written = threading.Event()
        self._lines.put(written)
        written.wait(FLUSH_SECONDS)

    def _work(self) -> None:
        while True:
            item = self._lines.get()
            if isinstance(item, threading.Event):
                item.set()
                continue
            if not self._write(item):
                self._drop()
            elif self._dropped:
                dropped, self._dropped = self._dropped, 0
                self._write(f"{dropped} lines of the log were dropped: it could not be written\n")

    def _write(self, text: str) -> bool:
        """Write a line; return False if it cannot be: a disk is full, or nobody is there."""
        try:
            if self._descriptor is None:
                self._stream.write(text)
                return True
            content = text.encode(self._stream.encoding or "utf-8", "backslashreplace")
            while content:
                content = content[os.write(self._descriptor, content) :]
        except (OSError, ValueError):
            return False
        return True


def configure_logging(log_format: LogFormat, *, verbose: bool = False) -> LogWriter:
    """Send all logs to standard error."""
    handler = LogWriter(sys.stderr)
    is_json = log_format is LogFormat.JSON
    handler.setFormatter(AgentJsonFormatter() if is_json else logging.Formatter(_PLAIN))
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=True)
    return handler
