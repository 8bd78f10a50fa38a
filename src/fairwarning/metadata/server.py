"""The metadata endpoint: listeners, and what all connections share."""

import asyncio
import socket
import sys
from contextlib import suppress
from functools import partial

from fairwarning.core import limits
from fairwarning.core.errors import FairwarningError
from fairwarning.metadata import instance
from fairwarning.metadata.answers import Refusal, render
from fairwarning.metadata.connection import CROWDED, FULL, Connection, Work
from fairwarning.metadata.counts import Counts
from fairwarning.metadata.events import GONE, Events, refusal_of
from fairwarning.metadata.gate import API_VERSIONS, EVENTS, Ask, Gate, Head
from fairwarning.metadata.identity import Caller, Callers, Key, Naming
from fairwarning.metadata.reader import Request
from fairwarning.service.fleet import Fleet
from fairwarning.service.metrics import Metric, counter, counters, gauge
from fairwarning.service.settings import Cloud, Settings

_MEMO_REQUESTS = 1024
_MEMO_BYTES = 1024  # of one request; pollers send about 150
_FORGET_TICKS = 300
_STOP_SECONDS = 5.0


class Door:
    """A listener, and how its connections tell whose they are."""

    taking: asyncio.Server

    def __init__(self, naming: Naming) -> None:
        self.naming = naming


class Server:
    """Answers machines. Time for deadlines and rates comes in ticks of a second."""

    def __init__(
        self, fleet: Fleet, cloud: Cloud | None = None, settings: Settings | None = None
    ) -> None:
        self.settings = settings or Settings()
        self.counts = Counts()
        self.gate = Gate(self.settings)
        self.events = Events(fleet, self.counts)
        self._rate = self.settings.requests_per_second or 0
        self.callers = Callers(fleet, limits.REQUESTS_BURST if self._rate else sys.maxsize)
        self.faults = fleet.faults
        self.faults.followers.append(self.callers.recheck)
        self.memo: dict[bytes, Ask] = {}
        """Requests that passed every check, byte for byte. Who asked is no part of it."""
        self._cloud = cloud or Cloud()
        fleet.polls.collectors.append(self._collect)
        self.connections: set[Connection] = set()
        self._strangers: dict[Key, int] = {}
        self._doors: set[Door] = set()
        self._ticker: asyncio.TimerHandle | None = None
        self._ticks = 0
        self._empty: asyncio.Event | None = None  # once stopping
        self.most = self.settings.connections
        self.most_of_machine = self.settings.connections_of_machine

    # --- Listening ---

    async def listen(self, listener: socket.socket, naming: Naming) -> Door:
        """Take connections from a socket that listens, until it or the door is closed."""
        loop = asyncio.get_running_loop()
        door = Door(naming)
        door.taking = await loop.create_server(partial(Connection, self, door), sock=listener)
        self._doors.add(door)
        if self._ticker is None:
            self._ticker = loop.call_later(1.0, self._tick_again)
        return door

    def close(self, door: Door) -> None:
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
        if self._rate:
            self.callers.allow(self._rate, limits.REQUESTS_BURST)
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
            self._empty = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), _STOP_SECONDS)
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
            counter("fairwarning_connections", "Connections accepted.", counts.connections),
            counters("fairwarning_refused", "Requests refused.", "reason", counts.refused),
            counters("fairwarning_faults", "Faults on demand.", "kind", counts.faults),
            gauge("fairwarning_held", "Long polls that are held.", counts.held),
            gauge("fairwarning_open", "Connections that are open.", len(self.connections)),
            gauge("fairwarning_callers", "Machines that asked lately.", len(self.callers.known)),
        ]

    # --- What connections share ---

    def greet(self, connection: Connection, key: Key) -> None:
        """A connection of somebody who has not asked lately, or one too many."""
        strangers = self.strange(key)
        if len(self.connections) > self.most:
            connection.end(FULL)
        elif strangers > self.most_of_machine:
            connection.end(CROWDED)

    def strange(self, key: Key) -> int:
        """A connection of somebody who has not asked lately; how many these are."""
        count = self._strangers[key] = self._strangers.get(key, 0) + 1
        return count

    def no_longer_strange(self, key: Key) -> None:
        """It is gone, or known by now."""
        self._strangers[key] -= 1
        if not self._strangers[key]:
            del self._strangers[key]

    def hold(self, caller: Caller) -> None:
        """A poll waits for its answer: it has been seen, and is counted when it is answered."""
        self.counts.held += 1
        caller.polls -= 1
        caller.allowed -= 1
        self.events.seen(caller)

    def leave(self, connection: Connection) -> None:
        """It is gone."""
        self.connections.discard(connection)
        if self._empty is not None and not self.connections:
            self._empty.set()

    def learn(self, data: bytes, request: Request, head: Head | None) -> bool:
        """These bytes are one request: whether it is a GET that passed, and known from now on."""
        ask = request.ask
        if ask is None or ask.method != b"GET" or request.body or head is None:
            return False
        if len(data) > _MEMO_BYTES:
            return False
        self.gate.learn(data, head, close=ask.close)
        self._remember(data, ask)
        return True

    def recognise(self, data: bytes) -> Ask | None:
        """A GET that is new but for its headers; None if it has to be read, or to be refused."""
        if len(data) > _MEMO_BYTES:
            return None
        try:
            ask = self.gate.recognise(data)
        except Refusal:
            return None
        if ask is not None:
            self._remember(data, ask)
        return ask

    def _remember(self, data: bytes, ask: Ask) -> None:
        memo = self.memo
        if len(memo) >= _MEMO_REQUESTS:
            memo.clear()  # dropping one at a time costs more than learning them again
        memo[data] = ask

    def answer(self, caller: Caller, ask: Ask, body: bytes) -> bytes | Work:
        """The answer to a request, or the work that brings it."""
        if ask.path == EVENTS and ask.method == b"GET":
            return self.events.ready(caller, ask) or partial(self.events.fetch, caller, ask)
        if ask.path == EVENTS:
            return partial(self.events.approve, caller, ask, body)
        return self._describe(caller, ask)

    def _describe(self, caller: Caller, ask: Ask) -> bytes:
        """Instance metadata (M19)."""
        self.counts.descriptions += 1
        if ask.path == API_VERSIONS:
            return render(200, instance.versions_body(), close=ask.close)
        machine, scope = caller.machine(), caller.published.scope
        if machine is None or scope is None or not caller.runs():
            raise GONE
        try:
            body, kind = instance.answer(
                self._cloud, scope, machine, ask.version, ask.segments, text=ask.text
            )
        except FairwarningError as error:
            raise refusal_of(error) from error
        return render(200, body, kind=kind, close=ask.close)
