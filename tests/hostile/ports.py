"""A port as the console and the ARM API have it, with a small application behind it.

with PortHarness(WAYS["console"], tmp_path) as port, port.connect() as client:
    assert client.request(head("GET", "/", HOST)).status == 200
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import uvloop
from starlette.types import Receive, Scope, Send

from fairwarning.server.certificates import Authority
from fairwarning.server.lazy import LazyServer
from fairwarning.server.ports.connection import LimitedConnection
from fairwarning.server.ports.refusals import ConnectionCounter, PortLimits
from tests.fixtures.fleet import NOON
from tests.fixtures.waiting import LIMIT_SECONDS, OUTER_LIMIT_SECONDS, wait_until_async
from tests.hostile.wire import Client

T = TypeVar("T")

_BIG_PARTS = 512  # of 64 KiB: more than the buffers between server and client hold


@dataclass(frozen=True)
class Way:
    """How a port is served."""

    make_loop: Callable[[], asyncio.AbstractEventLoop]
    tls: bool


WAYS = {
    "console": Way(uvloop.new_event_loop, tls=False),
    "console on asyncio": Way(asyncio.new_event_loop, tls=False),
    "arm": Way(uvloop.new_event_loop, tls=True),
    "arm on asyncio": Way(asyncio.new_event_loop, tls=True),
}


class PortHarness:
    """A port on its own event loop. `tick` runs its deadlines as if time had passed."""

    def __init__(self, way: Way, folder: Path, connections: int = 64, of_address: int = 64) -> None:
        self.tls = way.tls
        self._authority = Authority(folder, ())
        if way.tls:
            self._authority.prepare()
        limits = PortLimits(connections=connections, of_address=of_address)
        self.counter = ConnectionCounter("test", limits)
        self._loop = way.make_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="port")
        self.release = asyncio.Event()  # lets `/wait` and `/stream` go on
        self.bodies: list[int] = []  # sizes of the bodies that the application has read

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._start())
        return self

    async def _start(self) -> None:
        sock = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = sock.getsockname()[1]
        self._lazy = LazyServer(
            sock,
            lambda: self._application,
            self.counter,
            lambda: NOON,
            self._authority.context if self.tls else None,
        )

    def __exit__(self, *_: object) -> None:
        try:
            self.call(self.release.set)
            self.run(self._lazy.close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(OUTER_LIMIT_SECONDS)

    def call(self, function: Callable[[], T]) -> T:

        async def work() -> T:
            return function()

        return self.run(work())

    def wait_until(self, condition: Callable[[], T]) -> T:
        return self.run(wait_until_async(condition))

    # --- The server's side ---

    @property
    def connections(self) -> list[LimitedConnection]:
        server = self._lazy._server
        connections = server.server_state.connections if server else ()
        return cast("list[LimitedConnection]", list(connections))

    def tick(self, seconds: float) -> None:
        """Check all deadlines as if so many seconds had passed."""

        def check() -> None:
            for connection in self.connections:
                connection.tick(self._loop.time() + seconds)

        self.call(check)

    async def _application(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == "/read":
            await self._read(receive)
        if path == "/wait":
            await self.release.wait()
        parts = [b"x" * 64 * 1024] * _BIG_PARTS if path == "/big" else [b"ok"]
        size = sum(map(len, parts))
        headers = [] if path == "/stream" else [(b"content-length", b"%d" % size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if path == "/stream":
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            await self.release.wait()
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    async def _read(self, receive: Receive) -> None:
        size = 0
        while (message := await receive())["type"] == "http.request":
            size += len(message["body"])
            if not message["more_body"]:
                self.bodies.append(size)
                return

    # --- Clients ---

    def open(self, source: str = "127.0.0.1", buffer_bytes: int = 0) -> socket.socket:
        """Connect from this address, without a TLS handshake."""
        sock = socket.socket()
        if buffer_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        sock.settimeout(LIMIT_SECONDS)
        sock.bind((source, 0))
        sock.connect(("127.0.0.1", self.port))
        return sock

    def connect(self, source: str = "127.0.0.1", buffer_bytes: int = 0) -> Client:
        """Connect from this address; over TLS if the port has it."""
        sock = self.open(source, buffer_bytes)
        if self.tls:
            context = ssl.create_default_context(cafile=self._authority.ca)
            sock = context.wrap_socket(sock, server_hostname="localhost")
        return Client(sock)
