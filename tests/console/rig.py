"""A console over a real fleet, in process: requests as a server would hand them over, to the byte.

with Console() as it:
    it.created("machines", name="vm")
    assert it.ok("GET", "/api/machines/vm")["power"] == "Running"

It is the metadata rig's endpoint as well: `it.get("vm")` is a real poll of a real machine.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

from fairwarning.console.api.outward import Theatre
from fairwarning.console.app import Parts, application
from fairwarning.console.closing import Closing
from fairwarning.core.model import (
    Entity,
    Impact,
    Lane,
    Operation,
    Resource,
    Rollout,
    ScaleSet,
    Scope,
)
from fairwarning.machines.driver import Report
from fairwarning.machines.simulated import SimulatedDriver
from fairwarning.metadata.identity import by_local_address, loopback_address
from fairwarning.metadata.server import Server
from fairwarning.service.clock import Clock, RealClock, VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.settings import TENANT
from fairwarning.service.settings import Console as Names
from fairwarning.service.tokens import Principal, Role, Tokens
from fairwarning.service.webhooks.targets import Targets
from fairwarning.service.webhooks.webhooks import Webhooks
from fairwarning.store.store import Store
from tests.fixtures.fleet import NOON
from tests.metadata.rig import LONGEST_SECONDS, Endpoint

HOST = "127.0.0.1:8170"
KEY = "key-of-the-link"
KINDS: tuple[type[Entity], ...] = (Scope, ScaleSet, Operation, Rollout, Lane, Resource)

Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Reply:
    """What a client of the console got."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  (whatever it is)
        """The body, read."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """What a refusal is called; it also has a sentence, and nothing else."""
        error = self.json["error"]
        assert set(error) == {"code", "message"}
        assert error["message"]
        code: str = error["code"]
        return code

    @property
    def why(self) -> str:
        """What a refusal says."""
        message: str = self.json["error"]["message"]
        return message


def request(method: str, target: str, headers: Headers, server: str = "127.0.0.1") -> Message:
    """An ASGI scope, as uvicorn makes it."""
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": (server, 8170),
        "client": ("127.0.0.1", 50000),
        "scheme": "http",
        "method": method,
        "root_path": "",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "headers": [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in headers],
    }


async def ask(app: ASGIApp, asked: Message, body: bytes = b"") -> Reply:
    """One request, to the end of its answer. What the application does not catch is raised."""
    told: list[Message] = []
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        told.append(message)

    await app(asked, receive, send)
    headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in told[0]["headers"]}
    whole = b"".join(message.get("body", b"") for message in told[1:])
    return Reply(told[0]["status"], headers, whole)


class FlawedDriver:
    """The simulated driver, but what happens to some machines fails."""

    def __init__(self, inner: SimulatedDriver) -> None:
        self._inner = inner
        self.failing: set[str] = set()

    def carry_out(self, impact: Impact, report: Report) -> None:
        """It takes as long as if it had worked."""
        error = "the host did not come back" if impact.machine in self.failing else ""
        self._inner.carry_out(impact, lambda one, why: report(one, error or why))


class Console(Endpoint):
    """A fleet, its metadata endpoint and its console, on a loop of their own."""

    def __init__(
        self,
        *,
        store: Store | None = None,
        hosts: tuple[str, ...] = (),
        theatre: Theatre | None = None,
        real: bool = False,
    ) -> None:
        super().__init__(store=store)
        self._hosts = hosts
        self._theatre = theatre
        self._real = real
        self.tokens = Tokens(b"k" * 32, TENANT)
        self.token = self.token_of(Role.OPERATOR)

    def token_of(self, role: Role, name: str = "", group: str = "") -> str:
        """A token of somebody who is that."""
        return self.tokens.access(Principal(name=name or role.value, role=role, group=group))

    async def _up(self) -> None:
        self.clock = VirtualClock(NOON)
        clock: Clock = RealClock() if self._real else self.clock
        self.driver = FlawedDriver(
            SimulatedDriver(lambda s, call: clock.call_at(clock.now() + s, call))
        )
        self.fleet = Fleet(self._store, clock, self.driver)
        await self.fleet.start()
        self.server = Server(self.fleet, self._cloud, self._settings)
        self.port = await self._listen(by_local_address)
        self.webhooks = Webhooks(self.fleet, Targets(("127.0.0.1",)))
        await self.webhooks.start()
        self.closing = Closing(self.fleet)
        self.app = application(
            Parts(
                fleet=self.fleet,
                figures=lambda: [*self.fleet.metrics(), *self.server.metrics()],
                tokens=self.tokens,
                webhooks=self._hooks,
                closing=self.closing,
                key=KEY,
                settings=Names(hosts=self._hosts),
                theatre=self._theatre,
            )
        )

    async def _hooks(self) -> Webhooks:
        return self.webhooks

    async def _down(self) -> None:
        self.closing.begin()
        await self.webhooks.stop()
        await super()._down()
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=LONGEST_SECONDS)  # streams that somebody left open

    def again(self) -> None:
        """Stop the service cleanly and start another on the same data."""
        self.run(self._down())
        self.run(self._up())

    # --- Asking ---

    def send(
        self,
        method: str,
        target: str,
        headers: Headers,
        body: bytes = b"",
        server: str = "127.0.0.1",
    ) -> Reply:
        """A request with these headers and no others."""
        return self.run(ask(self.app, request(method, target, headers, server), body))

    def api(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        key: str = "",
        token: str | None = None,
    ) -> Reply:
        """A request as our programs send it; a key makes it repeatable."""
        given = self.token if token is None else token
        headers = [("Host", HOST), ("Authorization", f"Bearer {given}")]
        headers += [("Idempotency-Key", key)] if key else []
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        return self.send(method, target, headers, raw)

    def ok(self, method: str, target: str, body: object = None, *, key: str = "") -> Any:  # noqa: ANN401
        """The answer of a request that must succeed."""
        reply = self.api(method, target, body, key=key)
        assert reply.status in {200, 201, 202, 204}, (reply.status, reply.body)
        self.settle()
        return reply.json if reply.body else None

    def created(self, kind: str, **entry: object) -> Any:  # noqa: ANN401
        """Machines or sets, by an entry of the fleet file; their addresses are known then."""
        made = self.ok("POST", f"/api/{kind}", entry)
        self.learn()
        return made

    def act(self, machine: str, action: str, key: str = "", **settings: object) -> Any:  # noqa: ANN401
        """Let something happen to a machine."""
        return self.ok("POST", f"/api/machines/{machine}/{action}", settings, key=key)

    def pages(self, target: str, what: str, limit: int) -> list[list[Any]]:
        """A list, page by page."""
        mark = "&" if "?" in target else "?"
        found, after = [], ""
        while True:
            page = self.ok("GET", f"{target}{mark}limit={limit}{after}")
            found.append(page[what])
            if page["next"] is None:
                return found
            after = f"&after={page['next']}"

    # --- The fleet ---

    def learn(self) -> None:
        """The addresses of machines that came lately."""
        self.settle()
        for place in self.run(self._store.places(0, 100_000)):
            address = loopback_address(place.number)
            assert address is not None
            self._addresses[place.machine.name] = address

    def settle(self) -> None:
        """Return once nothing waits to be decided."""
        self.run(self.fleet.settled())

    def poll(self, *machines: str, version: str = "2020-07-01") -> None:
        """A real poll of each; who was told stands in the journal then."""
        for machine in machines:
            assert self.get(machine, version).status == 200
        self.tell()

    def tell(self) -> None:
        """Have it journaled now who was told."""
        self.call(self.fleet.told.write)
        self.settle()

    def whole(self) -> list[object]:
        """All there is to know of the fleet, to be compared."""
        return self.run(self._whole())

    async def _whole(self) -> list[object]:
        store = self._store
        found: list[object] = [await store.note("clock"), self.fleet.faults.standing()]
        found += await store.journal(limit=100_000)
        for kind in KINDS:
            refs = [(kind, name) for name in await store.names(kind, "", 100_000)]
            found.append(await store.load(refs))
        return found


def bare(reply: Reply) -> Reply:
    """Without what differs between two answers to the same question."""
    return replace(reply, headers={})
