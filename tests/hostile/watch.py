"""Watch a server under attack for errors, log lines and memory growth."""

import asyncio
import logging
import os
import resource
from pathlib import Path
from typing import Any, Self

from tests.fixtures.endpoint import EndpointHarness

_PAGE = resource.getpagesize()


class Watch(logging.Handler):
    """Collects log records and exceptions of the endpoint's event loop."""

    def __init__(self, endpoint: EndpointHarness) -> None:
        super().__init__(logging.WARNING)
        self._endpoint = endpoint
        self.seen: list[str] = []

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self)
        self._endpoint.call(lambda: asyncio.get_running_loop().set_exception_handler(self._failed))
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.seen.append(repr(context))


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    pages = Path(f"/proc/{os.getpid()}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * _PAGE
