"""The time that all processes share: the database's clock, without its steps."""

import asyncio
from math import ceil

from fairwarning.store.elapsed_time import elapsed_time
from fairwarning.store.postgres.connections import Connection, ConnectionPool
from fairwarning.store.postgres.statements import execute, run
from fairwarning.store.store import ClockReading

_READINGS = 5
_UNCLEAR_SECONDS = 0.2
_STEP_SECONDS = 2.0  # a smaller step of the database's clock is followed


class SharedClock:
    """Reads the clock, and moves it on for all processes."""

    def __init__(self, connections: ConnectionPool) -> None:
        self._connections = connections
        self._read_at: float | None = None  # None before the first time

    def start(self) -> None:
        """Begin as a new process, which has not read the clock yet."""
        self._read_at = None

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
        ((now, ahead, gap, last_read_at),) = await execute(connection, "advance_clock")
        if gap is not None:
            step = self._step_in(gap)
            sent_at = elapsed_time()
            ((now, ahead),) = await execute(
                connection, "settle_clock", last_read_at=last_read_at, step=step
            )
        self._read_at = sent_at
        return ClockReading(now, ahead, sent_at, elapsed_time())

    def _step_in(self, gap: float) -> float | None:
        """Return which part of a gap was a step of the clock; None if nothing can be known.

        If this process has read the clock in less time than the gap, by its own clock, then the
        database's clock was stepped.
        """
        if self._read_at is None:
            return None
        elapsed = elapsed_time() - self._read_at
        return gap if gap > elapsed + _STEP_SECONDS else 0.0
