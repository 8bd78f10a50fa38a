"""The time that all processes share: the database's clock, without its steps (`docs/time.md`)."""

import asyncio
from math import ceil
from uuid import UUID

from fairwarning.store.elapsed_time import elapsed_time
from fairwarning.store.postgres.connections import Connection, ConnectionPool
from fairwarning.store.postgres.statements import execute, run
from fairwarning.store.store import ClockReading

_READINGS = 5
_UNCLEAR_SECONDS = 0.2


class SharedClock:
    """Reads the clock, and moves it on for all processes."""

    def __init__(self, connections: ConnectionPool) -> None:
        self._connections = connections
        self._last: ClockReading | None = None  # None before the first time
        self._line: UUID | None = None  # on which that reading is

    def start(self) -> None:
        """Begin as a new process, which has not read the clock yet."""
        self._last = self._line = None

    async def read(self) -> ClockReading:
        """Return the shared time; the quickest of a few readings."""
        async with self._connections.acquire() as connection:
            readings = [await self.advance(connection) for _ in range(_READINGS)]
        return min(readings, key=lambda reading: reading.received_at - reading.sent_at)

    async def let_others_advance(self, process: str, lease_seconds: float) -> None:
        """Wait for another process to tell whether the database's clock was stepped.

        If there is none within its lease, all were down.
        """
        for _ in range(ceil(lease_seconds / _UNCLEAR_SECONDS)):
            ((is_unclear,),) = await run(self._connections, "clock_is_unclear", process=process)
            if not is_unclear:
                return
            await asyncio.sleep(_UNCLEAR_SECONDS)

    async def advance(self, connection: Connection) -> ClockReading:
        """Move the clock on to now, and return it."""
        sent_at = elapsed_time()
        last = self._last
        proven = last.now + sent_at - last.received_at if last else None
        ((now, ahead, self._line),) = await execute(
            connection, "advance_clock", proven=proven, line=self._line
        )
        self._last = ClockReading(now, ahead, sent_at, elapsed_time())
        return self._last
