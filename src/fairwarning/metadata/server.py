"""The metadata endpoint: listeners, the timer tick, and graceful shutdown."""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress

from fairwarning.core import limits
from fairwarning.metadata.accepting import AcceptWarning, Listener
from fairwarning.metadata.callers import CallerResolver
from fairwarning.metadata.handler import RequestHandler
from fairwarning.metadata.new_connections import NewConnections
from fairwarning.metadata.socket_events import EVENTS_AT_ONCE, SocketEvents, new_socket_events
from fairwarning.service.config.settings import CloudSettings, MetadataSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.health import PartHealth
from fairwarning.service.metrics import Metric, counter, counters, gauge

log = logging.getLogger(__name__)

_EVICT_TICKS = 300
_LAST_TURNS = 3  # of the event loop: it reads each accepted connection at least once
_STOP_SECONDS = 2.0  # for clients that do not read their response


class MetadataServer(RequestHandler):
    """Serves machines. A tick once a second drives deadlines and rate limits."""

    def __init__(
        self,
        fleet: Fleet,
        cloud: CloudSettings | None = None,
        settings: MetadataSettings | None = None,
    ) -> None:
        super().__init__(fleet, cloud, settings)
        fleet.polls.collectors.append(self._collect)
        self._listeners: set[Listener] = set()
        self._accept_warning = AcceptWarning()
        self.machine_problems: list[Callable[[], str]] = []  # of those that open listeners
        self.other_connections = 0  # that other ports of this process may have
        self._events: SocketEvents | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._ticks = 0

    async def listen(
        self, sock: socket.socket, resolve_key: CallerResolver, *, proxy: bool = False
    ) -> Listener:
        """Accept connections from a listening socket until the listener is closed."""
        loop = asyncio.get_running_loop()
        if self._events is None:
            self._events = new_socket_events(loop)
            self._new_connections = NewConnections(self, self._events)
            self._ticker = loop.call_later(1.0, self._tick_again)
        serve = self._new_connections.serve
        listener = Listener(sock, resolve_key, self._accept_warning, serve, proxy=proxy)
        listener.start()
        self._listeners.add(listener)
        return listener

    def close(self, listener: Listener) -> None:
        """Close a listener and abort its connections."""
        self._listeners.discard(listener)
        listener.close()
        for connection in tuple(self.connections):
            if connection.listener is listener:
                connection.abort()

    def health(self) -> PartHealth:
        """Whether all machines can connect."""
        problems = (self._accept_warning.problem, *(read() for read in self.machine_problems))
        return PartHealth(name="metadata", problem="; ".join(filter(None, problems)))

    def _tick_again(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(1.0, self._tick_again)
        self.tick()

    def tick(self) -> None:
        """Check deadlines, collect polls and refill rate limits; called once a second."""
        self._ticks += 1
        for connection in tuple(self.connections):
            try:
                connection.tick()
            except Exception:  # it must not keep the limits of all others from their refill
                log.exception("cannot check the deadline of a connection; closing it")
                asyncio.get_running_loop().call_soon(connection.abort)
        self._collect()
        if self.rate:
            self.callers.refill(self.rate, limits.REQUESTS_BURST)
        if self._ticks % _EVICT_TICKS == 0:
            self.callers.evict_idle()

    def _collect(self) -> None:
        self.counts.polls += self.callers.collect_polls()

    async def stop(self) -> None:
        """Stop accepting, answer the requests that have arrived, then close."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        for listener in tuple(self._listeners):
            listener.stop()
        if self._events is None:
            return
        for _ in range(_LAST_TURNS + len(self.connections) // EVENTS_AT_ONCE):
            await asyncio.sleep(0)
        for connection in tuple(self.connections):
            connection.finish()
        if self.connections:
            self.drained = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.drained.wait(), _STOP_SECONDS)
        for connection in tuple(self.connections):
            connection.abort()
        self._events.close()
        self._events = None

    def metrics(self) -> list[Metric]:
        """Return the request metrics."""
        counts = self.counts
        self._collect()
        return [
            counter("fairwarning_polls", "Documents sent, and 304 responses.", counts.polls),
            counter("fairwarning_approvals", "Approvals accepted.", counts.approvals),
            counter(
                "fairwarning_instance_metadata", "Instance metadata sent.", counts.descriptions
            ),
            counter("fairwarning_connections", "Connections accepted.", self.accepted),
            counters("fairwarning_requests_refused", "Requests refused.", "reason", counts.refused),
            counters("fairwarning_faults_injected", "Injected faults.", "kind", counts.faults),
            gauge("fairwarning_long_polls_held", "Long polls held.", counts.held),
            gauge("fairwarning_connections_open", "Open connections.", len(self.connections)),
            gauge(
                "fairwarning_machines_polling",
                "Machines that polled recently.",
                len(self.callers.known),
            ),
        ]
