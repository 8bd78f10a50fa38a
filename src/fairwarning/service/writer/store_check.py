"""Finds out whether the store can be written: a full disk is only noticed by a write (O10)."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from fairwarning.core.errors import FairwarningError
from fairwarning.service.health import PartHealth

log = logging.getLogger(__name__)

_EVERY_SECONDS = 1.0  # at most: any client of the console may ask


class StoreCheck:
    """Writes to the store when asked, at most once a second, and remembers the outcome."""

    def __init__(self, write: Callable[[], Awaitable[None]]) -> None:
        self._write = write
        self._turn = asyncio.Lock()
        self._checked = float("-inf")
        self._error: FairwarningError | None = None

    async def error(self) -> FairwarningError | None:
        """Return why the store cannot be written; None if it can."""
        async with self._turn:
            if time.monotonic() - self._checked >= _EVERY_SECONDS:
                self._report(await self._check())
                self._checked = time.monotonic()
        return self._error

    def health(self) -> PartHealth:
        """Return the outcome of the last check."""
        if self._error is None:
            return PartHealth(name="store")
        code = self._error.code
        text = f"the store cannot be written ({code}) and reads continue; see the log"
        return PartHealth(name="store", problem=text, stops_writes=True)

    async def _check(self) -> FairwarningError | None:
        try:
            await self._write()
        except FairwarningError as error:
            return error
        return None

    def _report(self, error: FairwarningError | None) -> None:
        if error and not self._error:
            log.error("the store cannot be written, commands are refused: %s", error.message)
        if self._error and not error:
            log.info("the store can be written again")
        self._error = error
