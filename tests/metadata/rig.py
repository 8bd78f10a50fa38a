"""A metadata endpoint on a real socket, in virtual time; plain calls and raw bytes, no `await`.

with Endpoint() as it:
    it.make("db", 2)
    assert it.get("db_0").json == {"DocumentIncarnation": 1, "Events": []}
"""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import uvloop

from fairwarning.core.commands import Command, CreateScope, Maintain, Restart
from fairwarning.core.model import Event, Machine, Operation, Rules, Scope, ScopeKind
from fairwarning.machines.simulated import SimulatedDriver
from fairwarning.metadata.connection import Connection
from fairwarning.metadata.identity import Naming, by_local_address, loopback_address
from fairwarning.metadata.listeners import BACKLOG
from fairwarning.metadata.server import Server
from fairwarning.service.clock import VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.settings import Cloud, Settings
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import Store
from tests.fixtures.fleet import NEWEST, NOON

T = TypeVar("T")

LONGEST_SECONDS = 30.0  # no answer takes as long; a hang is a failure
EVENTS = "/metadata/scheduledevents"


@dataclass(frozen=True)
class Answer:
    """What a client got."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  (whatever it is)
        """The body, read."""
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The `error` string that every refusal has."""
        assert self.headers["content-type"] == "application/json; charset=utf-8"
        error = self.json["error"]
        assert isinstance(error, str)
        return error


class Endpoint:
    """A fleet and its endpoint, on a loop of their own."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        store: Store | None = None,
        cloud: Cloud | None = None,
    ) -> None:
        self._settings = settings
        self._cloud = cloud
        self._store = store or MemoryStore()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint")
        self._addresses: dict[str, str] = {}
        self._operations = 0
        self._kept: list[HTTPConnection] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._up())
        return self

    async def _up(self) -> None:
        self.clock = VirtualClock(NOON)
        driver = SimulatedDriver(lambda s, call: self.clock.call_at(self.clock.now() + s, call))
        self.fleet = Fleet(self._store, self.clock, driver)
        await self.fleet.start()
        self.server = Server(self.fleet, self._cloud, self._settings)
        self.port = await self._listen(by_local_address)

    async def _listen(self, naming: Naming) -> int:
        listener = socket.socket()
        listener.bind(("0.0.0.0", 0))
        listener.listen(BACKLOG)
        await self.server.listen(listener, naming)
        port: int = listener.getsockname()[1]
        return port

    def listen(self, naming: Naming) -> int:
        """One more listener, which names its callers in this way; its port."""
        return self.run(self._listen(naming))

    def listen_on(self, listener: socket.socket, naming: Naming) -> None:
        """The same with a socket that listens already, of whatever family."""
        self.run(self.server.listen(listener, naming))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self._kept:
            connection.close()
        try:
            self.run(self._down())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _down(self) -> None:
        await self.server.stop()
        await self.fleet.stop()

    # --- The fleet ---

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it on the endpoint's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LONGEST_SECONDS)

    def call(self, what: Callable[[], T]) -> T:
        """The same for what is no coroutine."""

        async def work() -> T:
            return what()

        return self.run(work())

    def do(self, command: Command) -> Operation | None:
        """Submit a command and let its consequences settle."""

        async def work() -> Operation | None:
            operation = await self.fleet.submit(command)
            await self.fleet.settled()
            return operation

        return self.run(work())

    def make(self, scope: str, machines: int = 1, *, rules: Rules | None = None) -> None:
        """An availability set with machines `{scope}_0`, `{scope}_1`, ..."""
        self.create(
            CreateScope(
                scope=scope,
                kind=ScopeKind.AVAILABILITY_SET,
                machines=tuple(Machine(name=f"{scope}_{n}") for n in range(machines)),
                rules=rules or Rules(),
            )
        )

    def create(self, command: Command) -> None:
        """Submit, and learn the addresses of machines that came by it."""
        self.do(command)
        for place in self.run(self._store.places(0, 100_000)):
            address = loopback_address(place.number)
            assert address is not None
            self._addresses[place.machine.name] = address

    def restart(self, machine: str) -> Event:
        """A user restarts a machine of a scope that is on; the event that announces it."""
        scope = self.scope_of(machine)
        self._operations += 1
        self.do(Restart(scope=scope, operation=f"op-{self._operations}", machines=(machine,)))
        return list(self.scope(scope).events.values())[-1]

    def freeze(self, *machines: str) -> Event:
        """The platform freezes machines of one scope."""
        scope = self.scope_of(machines[0])
        self._operations += 1
        self.do(Maintain(scope=scope, operation=f"op-{self._operations}", machines=machines))
        return list(self.scope(scope).events.values())[-1]

    def scope_of(self, machine: str) -> str:
        """Where it is."""
        (place,) = self.run(self._store.find(name=machine))
        return place.scope

    def scope(self, name: str) -> Scope:
        """A scope as it is."""
        found = self.run(self.fleet.read(Scope, name))
        assert found is not None
        return found

    def advance(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.run(self.fleet.advance(seconds))

    def tick(self, seconds: int = 1) -> None:
        """Let the endpoint think that real seconds have passed."""
        for _ in range(seconds):
            self.call(self.server.tick)

    def stop_ticking(self) -> None:
        """Real seconds go unnoticed from now on: only `tick` counts."""
        self.call(self._still)

    def _still(self) -> None:
        assert self.server._ticker is not None
        self.server._ticker.cancel()

    def until(self, condition: Callable[[], bool]) -> None:
        """Return once this holds on the endpoint's loop; fail if it never does."""

        async def work() -> None:
            async with asyncio.timeout(LONGEST_SECONDS / 2):
                while not condition():  # noqa: ASYNC110  (what is seen is the test)
                    await asyncio.sleep(0)

        self.run(work())

    @property
    def connections(self) -> list[Connection]:
        """Those that are open, as the endpoint has them."""
        return cast("list[Connection]", list(self.server.connections))

    # --- Clients ---

    def address(self, machine: str) -> tuple[str, int]:
        """Where this machine asks."""
        return self._addresses[machine], self.port

    def connect(self, machine: str) -> HTTPConnection:
        """A connection of this machine, for several requests."""
        return HTTPConnection(*self.address(machine), timeout=LONGEST_SECONDS)

    def client(self, machine: str) -> HTTPConnection:
        """The same, closed at the end if not before."""
        return self.keep(self.connect(machine))

    def keep(self, connection: HTTPConnection) -> HTTPConnection:
        """Close this one, too, at the end."""
        self._kept.append(connection)
        return connection

    def ask(
        self,
        machine: str,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | str | None = None,
    ) -> Answer:
        """One request of this machine, on a connection of its own."""
        connection = self.connect(machine)
        try:
            return ask(connection, method, target, headers, body)
        finally:
            connection.close()

    def get(self, machine: str, version: str = NEWEST, more: str = "", **headers: str) -> Answer:
        """Poll as a good client does; `more` is added to the query."""
        target = f"{EVENTS}?api-version={version}{more}"
        return self.ask(machine, "GET", target, {"Metadata": "true", **headers})

    def begin(
        self, machine: str, version: str = NEWEST, more: str = "", **headers: str
    ) -> HTTPConnection:
        """Poll, but do not wait for the answer: `finish` does."""
        connection = self.client(machine)
        target = f"{EVENTS}?api-version={version}{more}"
        connection.request("GET", target, headers={"Metadata": "true", **headers})
        return connection

    def approve(self, machine: str, *events: str, version: str = NEWEST) -> Answer:
        """Approve as a good client does."""
        body = json.dumps({"StartRequests": [{"EventId": event} for event in events]})
        target = f"{EVENTS}?api-version={version}"
        return self.ask(machine, "POST", target, {"Metadata": "true"}, body)

    def raw(self, machine: str, *parts: bytes) -> bytes:
        """Send bytes as they are, each part by itself; everything until the other side closes."""
        with self.open(machine) as client:
            for part in parts:
                client.sendall(part)
            client.shutdown(socket.SHUT_WR)
            return read_all(client)

    def open(self, machine: str) -> socket.socket:
        """A bare connection of this machine."""
        client = socket.create_connection(self.address(machine), LONGEST_SECONDS)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client


def ask(
    connection: HTTPConnection,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes | str | None = None,
) -> Answer:
    """One request on a connection that may be used again."""
    connection.request(method, target, body, dict(headers))
    response = connection.getresponse()
    names = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, names, response.read())


def finish(connection: HTTPConnection) -> Answer:
    """The answer to what was asked before."""
    response = connection.getresponse()
    names = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, names, response.read())


def poll(connection: HTTPConnection, version: str = NEWEST, **headers: str) -> Answer:
    """Poll on a connection that may be used again."""
    target = f"{EVENTS}?api-version={version}"
    return ask(connection, "GET", target, {"Metadata": "true", **headers})


def approval(*events: str, **more: object) -> str:
    """The body that approves these; `more` stands before them."""
    return json.dumps({**more, "StartRequests": [{"EventId": event} for event in events]})


def request(target: str, *headers: str, method: str = "GET", http: str = "1.1") -> bytes:
    """A request without a body, as bytes; the headers are lines."""
    lines = [f"{method} {target} HTTP/{http}", "Host: 127.0.0.1", "Metadata: true", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def read_all(client: socket.socket) -> bytes:
    """Everything until the other side closes; a reset ends it as well."""
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)
