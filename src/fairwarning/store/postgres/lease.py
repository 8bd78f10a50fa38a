"""One process among the others: its lease, its heartbeats, and the server that it follows.

All processes are equal. Each renews a lease; when a lease expires, other processes take over the
timers, impacts and duties that its process held. `heartbeats` tells each process about the commits
of the others.
"""

import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from time import monotonic

import psycopg

from fairwarning.core.errors import Unavailable
from fairwarning.store.postgres.batch_writer import BatchWriter
from fairwarning.store.postgres.connections import (
    Connection,
    ConnectionPool,
    time_limit,
    translate_error,
)
from fairwarning.store.postgres.entity_cache import EntityCache
from fairwarning.store.postgres.shared_clock import SharedClock
from fairwarning.store.postgres.statements import execute, run
from fairwarning.store.sql_reads import Row
from fairwarning.store.store import ClockReading, Heartbeat

log = logging.getLogger(__name__)

_RENEWALS_PER_LEASE = 3


class ProcessLease:
    """The lease of this process, and what it knows of the server: its epoch (`SharedStore`)."""

    def __init__(
        self, connections: ConnectionPool, writer: BatchWriter, seconds: float, cached: int
    ) -> None:
        self.process = ""
        self.retired = False
        self.epoch = 0
        self.server = ""  # of this epoch
        self.position = 0  # the highest that this process knows of
        self.cache = EntityCache(cached)  # of this epoch
        self.impacts_unclear = False  # this process may have impacts that it does not know of
        self._connections = connections
        self._writer = writer
        self._clock = SharedClock(connections)
        self._seconds = seconds
        self._cached = cached

    def start(self) -> None:
        """Begin as a new process."""
        self.process = self._writer.process = str(uuid.uuid4())
        self._clock.start()

    async def begin(self) -> None:
        """Begin the lease, and take the places of processes that have ended."""
        await self._clock.let_others_advance(self.process, self._seconds)
        await self._clock.read()
        await self._run("renew_lease", lease=self._seconds)
        await self._run("remove_dead_processes")
        await self._writer.remove_old()

    async def end(self) -> None:
        """Release everything, so that other processes need not wait until the lease expires."""
        finished, self._writer.finished = self._writer.finished, []
        with suppress(Unavailable):
            await self._run("end_lease", finished=finished)

    async def retire(self) -> None:
        """Release everything and claim nothing from now on; other processes take over (IS4)."""
        self.retired = True
        await self.end()

    async def read_clock(self) -> ClockReading:
        return await self._clock.read()

    # --- Heartbeats ---

    async def heartbeats(self) -> AsyncIterator[Heartbeat]:
        """Yield the database's state after every commit and at every renewal of the lease.

        Raises `Unavailable` when the connection is lost; call it again to resume.
        """
        connection = None
        try:
            connection = await self._connections.connect()
            with time_limit(connection, self._seconds):
                await connection.execute("LISTEN fairwarning")
                await self.adopt_server(connection)
            await self._connections.mark_reachable(connection)
            while True:
                yield await self._renew(connection)
                renewal = monotonic() + self._seconds / _RENEWALS_PER_LEASE
                while await _wait_for_commit(connection, renewal - monotonic()):
                    yield await self._read_heartbeat(connection)
        except psycopg.Error as error:
            self._connections.mark_unreachable()
            raise translate_error(error) from error
        except Unavailable:
            self._connections.mark_unreachable()
            raise
        finally:
            if connection is not None:
                await connection.close()

    async def _renew(self, connection: Connection) -> Heartbeat:
        with time_limit(connection, self._seconds):
            reading = await self._clock.advance(connection)
            if self.retired:
                return await self._read_heartbeat(connection, clock=reading)
            await self._execute(connection, "renew_lease", lease=self._seconds)
            ((orphaned,),) = await self._execute(connection, "orphaned_impacts")
            return await self._read_heartbeat(
                connection, orphaned_impacts=orphaned or self.impacts_unclear, clock=reading
            )

    async def _read_heartbeat(
        self,
        connection: Connection,
        *,
        orphaned_impacts: bool = False,
        clock: ClockReading | None = None,
    ) -> Heartbeat:
        read_at = monotonic()
        with time_limit(connection, self._seconds):
            ((position, line, due, dropped),) = await self._execute(connection, "feed_position")
        self.position = max(self.position, position)
        return Heartbeat(
            read_at, position, line, due, orphaned_impacts, dropped, clock, epoch=self.epoch
        )

    # --- Epochs ---

    async def adopt_server(self, connection: Connection) -> None:
        """Begin an epoch if this is another server, or the same one without the last commits."""
        ((position,),) = await self._execute(connection, "position")
        lost = self.position - position
        if connection.server == self.server and lost <= 0:
            return
        if lost > 0:
            log.error("the database has lost the last %d changes that this process knew of", lost)
        elif self.server:
            log.warning("the database was restarted, or another server has taken over")
        self.impacts_unclear = bool(self.server)
        self.cache = EntityCache(self._cached)
        self.server, self.position = connection.server, position
        self.epoch += 1

    def enter_epoch(self, epoch: int) -> None:
        if epoch == self.epoch:
            self._writer.server = self.server

    async def _run(self, query: str, **values: object) -> list[Row]:
        return await run(self._connections, query, process=self.process, **values)

    async def _execute(self, connection: Connection, query: str, **values: object) -> list[Row]:
        return await execute(connection, query, process=self.process, **values)


async def _wait_for_commit(connection: Connection, seconds: float) -> bool:
    """Return whether a process committed before the time was up."""
    if seconds <= 0:
        return False
    notified = False
    async for _ in connection.notifies(timeout=seconds, stop_after=1):
        notified = True
    return notified
