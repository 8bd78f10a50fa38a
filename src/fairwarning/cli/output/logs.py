"""Logging to stderr, as plain lines or as one JSON object per line (O10)."""

import json
import logging
import time

from fairwarning.cli.connection.redaction import without_secrets
from fairwarning.core.printable import printable


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Format a record as a JSON object: time, level, logger, message and any traceback."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
        }
        if record.exc_info:
            line["traceback"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(line)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Format a record as a line, followed by any traceback."""
        return without_secrets(printable(super().format(record), keep="\n"))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's name)
        """Format the line: a line break in the message begins no other line."""
        return printable(super().formatMessage(record))


def to_stderr(*, as_json: bool) -> None:
    """Send all logs to stderr."""
    handler = logging.StreamHandler()
    plain = _Plain("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
    handler.setFormatter(_Json() if as_json else plain)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
