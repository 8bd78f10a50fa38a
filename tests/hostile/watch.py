"""Watches what must not happen while a server is under fire: errors, log lines, growth."""

import asyncio
import logging
import os
import resource
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.fixtures.endpoint import EndpointHarness

_PAGE = resource.getpagesize()


class Watch(logging.Handler):
    """Collects everything that reaches the log, or the exception handler of the endpoint's loop."""

    def __init__(self, it: EndpointHarness) -> None:
        super().__init__(logging.WARNING)
        self._it = it
        self.seen: list[str] = []

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self)
        self._it.call(lambda: asyncio.get_running_loop().set_exception_handler(self._failed))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """A line for the log."""
        self.seen.append(record.getMessage())

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.seen.append(repr(context))


def resident_bytes() -> int:
    """What this process holds in memory."""
    pages = Path(f"/proc/{os.getpid()}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * _PAGE
