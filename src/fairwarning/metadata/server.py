"""The metadata endpoint: listeners, the tick, and a graceful stop."""

import asyncio
import socket
from contextlib import suppress
from functools import partial

from fairwarning.core import limits
from fairwarning.metadata.callers import CallerResolver, Listener
from fairwarning.metadata.connection import MetadataConnection
from fairwarning.metadata.handler import RequestHandler
from fairwarning.service.config.settings import CloudSettings, MetadataSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.metrics import Metric, counter, counters, gauge

_FORGET_TICKS = 300
_STOP_SECONDS = 5.0


class MetadataServer(RequestHandler):
    """Answers machines. Time for deadlines and rates comes in ticks of a second."""

    def __init__(
        self,
        fleet: Fleet,
        cloud: CloudSettings | None = None,
        settings: MetadataSettings | None = None,
    ) -> None:
        super().__init__(fleet, cloud, settings)
        fleet.polls.collectors.append(self._collect)
        self._doors: set[Listener] = set()
        self._ticker: asyncio.TimerHandle | None = None
        self._ticks = 0

    async def listen(self, listener: socket.socket, naming: CallerResolver) -> Listener:
        """Take connections from a socket that listens, until it or the door is closed."""
        loop = asyncio.get_running_loop()
        door = Listener(naming)
        door.taking = await loop.create_server(
            partial(MetadataConnection, self, door), sock=listener
        )
        self._doors.add(door)
        if self._ticker is None:
            self._ticker = loop.call_later(1.0, self._tick_again)
        return door

    def close(self, door: Listener) -> None:
        """Whoever came in by this door is turned out, and nobody comes in any more."""
        self._doors.discard(door)
        door.taking.close()
        for connection in tuple(self.connections):
            if connection.door is door:
                connection.abort()

    def _tick_again(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(1.0, self._tick_again)
        self.tick()

    def tick(self) -> None:
        """A second has passed."""
        self._ticks += 1
        for connection in tuple(self.connections):
            connection.tick()
        self._collect()
        if self.rate:
            self.callers.allow(self.rate, limits.REQUESTS_BURST)
        if self._ticks % _FORGET_TICKS == 0:
            self.callers.forget_quiet()

    def _collect(self) -> None:
        self.counts.polls += self.callers.collect()

    async def stop(self) -> None:
        """Take no more, answer what is under way, close."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        for door in self._doors:
            door.taking.close()
        for connection in tuple(self.connections):
            connection.finish()
        if self.connections:
            self.emptied = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.emptied.wait(), _STOP_SECONDS)
        for connection in tuple(self.connections):
            connection.abort()

    def metrics(self) -> list[Metric]:
        """Figures about requests so far."""
        counts = self.counts
        self._collect()
        return [
            counter("fairwarning_polls", "Documents sent, or found unchanged.", counts.polls),
            counter("fairwarning_approvals", "Approvals accepted.", counts.approvals),
            counter("fairwarning_descriptions", "Instance metadata sent.", counts.descriptions),
            counter("fairwarning_connections", "Connections accepted.", self.accepted),
            counters("fairwarning_refused", "Requests refused.", "reason", counts.refused),
            counters("fairwarning_faults", "Faults on demand.", "kind", counts.faults),
            gauge("fairwarning_held", "Long polls that are held.", counts.held),
            gauge("fairwarning_open", "Connections that are open.", len(self.connections)),
            gauge("fairwarning_callers", "Machines that asked lately.", len(self.callers.known)),
        ]
