"""Logs go to stderr: a line for people, or a JSON object a line for machines (O10)."""

import json
import logging
import time


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One object: when, how bad, who, what; and the traceback, if any."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def to_stderr(*, as_json: bool) -> None:
    """From now on."""
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
    handler.setFormatter(_Json() if as_json else plain)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
