"""The time that all processes share: the database's clock, without its steps (`docs/time.md`)."""

import asyncio
import logging
from math import ceil
from time import monotonic
from uuid import UUID

from fairwarning.core.errors import Unavailable
from fairwarning.store.elapsed_time import elapsed_time
from fairwarning.store.postgres.connections import Connection, ConnectionPool
from fairwarning.store.postgres.statements import execute, run
from fairwarning.store.store import ClockReading

log = logging.getLogger(__name__)

_READINGS = 5  # at least
_PRECISE_SECONDS = 0.4  # between the bounds; then the time is known to within 200 ms (IK4)
_SLOW_SECONDS = 30.0  # in which one reading must be precise
_DRIFT = 0.001  # seconds per second by which two clocks drift apart, at most
_UNCLEAR_SECONDS = 0.2
_PAUSE_SECONDS = 0.05  # between two readings of a slow database


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
        """Return the shared time once it is known precisely.

        A reading takes long, and is not precise, while the database or this process is slow.
        """
        deadline = monotonic() + _SLOW_SECONDS
        readings = 0
        while True:
            async with self._connections.acquire() as connection:
                reading = await self.advance(connection)
            readings += 1
            if readings < _READINGS:
                continue
            if reading.most - reading.least <= _PRECISE_SECONDS:
                return reading
            if readings == _READINGS:
                log.warning("the database is too slow to tell the time precisely; reading on")
            await asyncio.sleep(_PAUSE_SECONDS)
            if monotonic() > deadline:
                text = "the database takes too long to tell the time; look for what slows it down"
                raise Unavailable("StoreSlow", text)

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
        last, now, answer = self._last, None, None
        while now is None:  # a correction is asked for what is proven by then
            sent_at = elapsed_time()
            proven = last.least + sent_at if last else None
            ((now, ahead, self._line, answer),) = await execute(
                connection, "advance_clock", proven=proven, line=self._line, answer=answer
            )
        received_at = elapsed_time()
        least, most = now - received_at, now - sent_at
        if last and last.ahead == ahead:  # what was read before still holds
            drift = (received_at - last.at) * _DRIFT
            if last.least - drift <= most and least <= last.most + drift:
                least, most = max(least, last.least - drift), min(most, last.most + drift)
        self._last = ClockReading(least, most, ahead, received_at)
        return self._last
