"""What the webhooks' tests share: a real receiver on loopback, a fleet that moves by itself."""

import asyncio
import hashlib
import hmac
import json
import random
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from fairwarning.core.cascade import Line
from fairwarning.core.commands import Approve, Restart
from fairwarning.core.decision import Did, Fact
from fairwarning.core.model import Impact, Scope
from fairwarning.machines.driver import Report
from fairwarning.service.clock import RealClock, VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.webhooks.outside import Outside
from fairwarning.service.webhooks.targets import Targets
from fairwarning.service.webhooks.webhooks import Status, Webhooks
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, Entry, Store
from tests.fixtures.fleet import NOON
from tests.service.rig import standalone

SECRET = "a secret of a test".replace(" ", "-")
ALLOWED = ("127.0.0.1", "localhost")
LONGEST_SECONDS = 25.0
TOLD = frozenset({Did.SCHEDULED, Did.APPROVED, Did.STARTED, Did.CANCELLED, Did.LAPSED, Did.ENDED})


Make = Callable[[Path], Store]
STORES: dict[str, Make] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda folder: SQLiteStore(folder / "fleet.db", ballast_bytes=4096),
}
each_store = pytest.mark.parametrize("make", STORES.values(), ids=STORES)


# --- The receiver --------------------------------------------------------------------------------


@dataclass
class Got:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  (whatever was sent)
        """Its body, read."""
        return json.loads(self.body)


@dataclass
class Reply:
    """What to answer; `raw` takes the connection over instead."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    raw: Callable[[BaseHTTPRequestHandler], None] | None = None


AGREES = {"WebHook-Allowed-Origin": "*"}


def agree(_: Got) -> Reply:
    """To everything."""
    return Reply(headers=AGREES)


def in_turn(*replies: Reply) -> Callable[[Got], Reply]:
    """One reply after another, the last for ever; handshakes are agreed to in between."""
    left = list(replies)

    def answer(got: Got) -> Reply:
        if got.method == "OPTIONS":
            return agree(got)
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


class Receiver:
    """A real HTTP server that notes what it gets and answers as told."""

    def __init__(
        self, answer: Callable[[Got], Reply] = agree, tls: ssl.SSLContext | None = None
    ) -> None:
        self.answer = answer
        self.got: list[Got] = []
        self.closing = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                receiver._handle(self)

            do_POST = do_OPTIONS = do_GET = handle_any  # noqa: N815  (the server looks for these)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            request_queue_size = 64

            def handle_error(self, *_: object) -> None:
                """A client that hangs up is part of these tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        if tls:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port: int = self._server.server_address[1]
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}/hook?from=test"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length", "0"))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        got = Got(handler.command, handler.path, headers, handler.rfile.read(length))
        self.got.append(got)
        reply = self.answer(got)
        if reply.raw:
            reply.raw(handler)
            return
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(reply.body)))
        handler.end_headers()
        handler.wfile.write(reply.body)

    def hang(self, _: object = None) -> None:
        """Answer nothing until the test is over."""
        self.closing.wait(LONGEST_SECONDS)

    @property
    def posts(self) -> list[Got]:
        """The messages."""
        return [got for got in self.got if got.method == "POST"]

    @property
    def ids(self) -> list[int]:
        """The journal numbers of the messages that are about events."""
        return [int(one.json["id"]) for one in self.posts if one.json["id"].isdigit()]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def verified(got: Got, secret: str = SECRET) -> bool:
    """Whether the signature is that of the body, checked as the documentation shows."""
    parts = dict(part.split("=", 1) for part in got.headers["x-fairwarning-signature"].split(","))
    expected = hmac.new(
        secret.encode(), parts["t"].encode() + b"." + got.body, hashlib.sha256
    ).hexdigest()
    return hmac.compare_digest(parts["v1"], expected)


# --- Time ----------------------------------------------------------------------------------------


class Naps:
    """Pauses that take no time but are counted, as far as there are any left."""

    def __init__(self, most: int = 1_000_000) -> None:
        self.taken: list[float] = []
        self.now = 1000.0
        self._most = most

    async def sleep(self, seconds: float) -> None:
        """Note it; when none is left, stay asleep."""
        self.taken.append(seconds)
        if len(self.taken) > self._most:
            await asyncio.Event().wait()
        self.now += seconds
        await asyncio.sleep(0)

    def outside(self, **settings: Any) -> Outside:  # noqa: ANN401  (any setting)
        """A world in which pauses are these."""
        given: dict[str, Any] = {
            "sleep": self.sleep,
            "steady": lambda: self.now,
            "chance": random.Random(7),
        }
        return Outside(**(given | settings))


async def until(condition: Callable[[], object]) -> None:
    """Return once it holds; fail if it never does."""
    ends = time.monotonic() + LONGEST_SECONDS
    while not condition():
        assert time.monotonic() < ends, "it never came to pass"
        await asyncio.sleep(0.002)


# --- The fleet -----------------------------------------------------------------------------------


class QuickDriver:
    """Carries everything out at once."""

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Done."""
        asyncio.get_running_loop().call_soon(report, impact, "")


class Town:
    """A fleet with webhooks, and the means to make things happen in it."""

    def __init__(self, fleet: Fleet, webhooks: Webhooks) -> None:
        self.fleet = fleet
        self.webhooks = webhooks
        self._count = 0

    async def create(self, receiver: Receiver, name: str = "ops", **settings: Any) -> None:  # noqa: ANN401
        """Subscribe the receiver; without a handshake unless one is asked for."""
        given: dict[str, Any] = {"secret": SECRET, "handshake": False}
        await self.webhooks.create(name, receiver.url, **(given | settings))

    async def machine(self, name: str = "vm") -> None:
        """A machine that listens."""
        await self.fleet.submit(standalone(name))
        await self.fleet.poll(name)

    async def restart(self, name: str = "vm") -> str:
        """Give notice of a reboot; the event's id."""
        self._count += 1
        operation = f"restart {name} {self._count}"
        await self.fleet.submit(Restart(scope=name, operation=operation, machines=(name,)))
        scope = await self.fleet.read(Scope, name)
        assert scope is not None
        return next(iter(scope.events))

    async def reboot(self, name: str = "vm") -> str:
        """A reboot from its notice to its end: four messages."""
        event = await self.restart(name)
        await self.fleet.submit(Approve(scope=name, events=(event,), actor=name))
        await self.fleet.settled()
        await until(lambda: not self._busy(name))
        return event

    def _busy(self, name: str) -> bool:
        entity = self.fleet._cache.get((Scope, name))
        return isinstance(entity, Scope) and bool(entity.impacts)

    async def told(self, after: int = 0) -> list[int]:
        """The numbers of all journal lines that have to be sent."""
        lines = await self.fleet.store.journal(after=after, limit=1_000_000)
        return [one.number for one in lines if one.line.fact.did in TOLD]

    async def caught_up(self, name: str = "ops") -> None:
        """Return once everything so far was sent or given up, and that is durable."""
        last = (await self.told())[-1]
        delivery = self.webhooks._deliveries[f"webhook::{name}"]
        await until(lambda: delivery._kept >= last)

    async def status(self, name: str = "ops") -> Status:
        """How a subscription is."""
        return next(one for one in await self.webhooks.list() if one.name == name)

    def state(self, name: str = "ops") -> str:
        """How a subscription is, in a word."""
        return self.webhooks._deliveries[f"webhook::{name}"].state

    async def invent(self, events: int, scopes: int = 100) -> list[Entry]:
        """Journal lines of events that are long gone, written straight into the store."""
        before = len(await self.fleet.store.journal(limit=1_000_000))
        lines = [
            Line(
                NOON,
                "clock",
                (Scope, f"s{n % scopes}"),
                Fact(Did.SCHEDULED, f"E{n}", "vm", f"o{n}"),
            )
            for n in range(events)
        ]
        await self.fleet.store.commit(Batch(NOON, lines=lines))
        self.webhooks._wake()
        return await self.fleet.store.journal(after=before, limit=1_000_000)


@asynccontextmanager
async def town(
    store: Store | None = None,
    outside: Outside | None = None,
    allow: Sequence[str] = ALLOWED,
    **settings: Any,  # noqa: ANN401  (any setting)
) -> AsyncIterator[Town]:
    """A running fleet with webhooks."""
    store = store or MemoryStore()
    clock = RealClock() if store.shared else VirtualClock(NOON)
    fleet = Fleet(store, clock, QuickDriver())
    await fleet.start()
    webhooks = Webhooks(fleet, Targets(allow), outside=outside or Naps().outside(), **settings)
    await webhooks.start()
    try:
        yield Town(fleet, webhooks)
    finally:
        await webhooks.stop()
        await fleet.stop()
