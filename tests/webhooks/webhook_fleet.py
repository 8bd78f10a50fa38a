"""A fleet with webhooks, whose impacts and back-off take no time."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from fairwarning.core.cascade import JournalLine
from fairwarning.core.commands import Approve, Restart
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.model import Impact, Scope
from fairwarning.machines.driver import Report
from fairwarning.service.clock import RealClock, VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.webhooks.delivery import Delivery
from fairwarning.service.webhooks.environment import Environment
from fairwarning.service.webhooks.status import SubscriptionStatus
from fairwarning.service.webhooks.targets import AllowedTargets
from fairwarning.service.webhooks.webhooks import WebhookService
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import Batch, JournalEntry, Store
from tests.fixtures.fleet import NOON, standalone
from tests.fixtures.receiver import SECRET, Receiver
from tests.fixtures.waiting import wait_until_async

ALLOWED = ("127.0.0.1", "localhost")
REPORTED = frozenset(
    {
        FactType.SCHEDULED,
        FactType.APPROVED,
        FactType.STARTED,
        FactType.CANCELLED,
        FactType.LAPSED,
        FactType.ENDED,
    }
)

each_store = pytest.mark.parametrize("store", ["memory", "sqlite"], indirect=True)


# --- Time ----------------------------------------------------------------------------------------


class CountedPauses:
    """Pauses that take no time but are recorded; after `limit` of them, sleeping blocks."""

    def __init__(self, limit: int = 1_000_000) -> None:
        self.taken: list[float] = []
        self.now = 1000.0
        self._limit = limit
        self._released = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Record a pause; block once the limit is exceeded."""
        self.taken.append(seconds)
        if len(self.taken) > self._limit:
            await self._released.wait()
        self.now += seconds
        await asyncio.sleep(0)

    def release(self) -> None:
        """Let pauses beyond the limit end at once."""
        self._released.set()

    def environment(self, **settings: Any) -> Environment:  # noqa: ANN401  (any setting)
        """An environment with these pauses."""
        defaults: dict[str, Any] = {
            "sleep": self.sleep,
            "monotonic": lambda: self.now,
            "rng": random.Random(7),
        }
        return Environment(**(defaults | settings))


# --- The fleet -----------------------------------------------------------------------------------


class InstantDriver:
    """Carries out every impact immediately."""

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Report success."""
        asyncio.get_running_loop().call_soon(report, impact, "")


class WebhookFleet:
    """A fleet with webhooks, with methods to cause events."""

    def __init__(self, fleet: Fleet, webhooks: WebhookService) -> None:
        self.fleet = fleet
        self.webhooks = webhooks
        self._count = 0

    async def create(self, receiver: Receiver, name: str = "ops", **settings: Any) -> None:  # noqa: ANN401
        """Subscribe the receiver."""
        defaults: dict[str, Any] = {"secret": SECRET}
        await self.webhooks.create(name, receiver.url, **(defaults | settings))

    async def machine(self, name: str = "vm") -> None:
        """Create a machine with the feature enabled."""
        await self.fleet.submit(standalone(name))
        await self.fleet.poll(name)

    async def restart(self, name: str = "vm") -> str:
        """Schedule a reboot; return the event's id."""
        self._count += 1
        operation = f"restart {name} {self._count}"
        await self.fleet.submit(Restart(scope=name, operation=operation, machines=(name,)))
        scope = await self.fleet.reader.read(Scope, name)
        assert scope is not None
        return next(iter(scope.events))

    async def reboot(self, name: str = "vm") -> str:
        """Schedule, approve and finish a reboot, which causes four messages."""
        event = await self.restart(name)
        await self.fleet.submit(Approve(scope=name, events=(event,), actor=name))
        await self.fleet.settled()
        await wait_until_async(lambda: not self._busy(name))
        return event

    def _busy(self, name: str) -> bool:
        entity = self.fleet.reader.cache.get((Scope, name))
        return isinstance(entity, Scope) and bool(entity.impacts)

    async def reported_lines(self, after: int = 0) -> list[int]:
        """The numbers of all journal lines that are sent."""
        entries = await self.fleet.store.journal(after=after, limit=1_000_000)
        return [entry.number for entry in entries if entry.line.fact.type in REPORTED]

    def delivery(self, name: str = "ops") -> Delivery:
        """The delivery of a subscription."""
        return self.webhooks._deliveries[f"webhook::{name}"]

    async def caught_up(self, name: str = "ops") -> None:
        """Return once all messages so far are sent or dropped, and the cursor is durable."""
        last = (await self.reported_lines())[-1]
        await wait_until_async(lambda: self.delivery(name)._saved >= last)

    async def status(self, name: str = "ops") -> SubscriptionStatus:
        """The status of a subscription."""
        return next(status for status in await self.webhooks.list() if status.name == name)

    def cursor_note(self, name: str = "ops") -> str:
        """The name of the note that stores a subscription's cursor."""
        return self.delivery(name).subscription.cursor_note

    def state(self, name: str = "ops") -> str:
        """The state of a subscription, as stored."""
        return self.delivery(name).saved_state

    async def invent(self, events: int, scopes: int = 100) -> list[JournalEntry]:
        """Write journal lines of invented events directly to the store."""
        before = len(await self.fleet.store.journal(limit=1_000_000))
        lines = [
            JournalLine(
                NOON,
                "clock",
                (Scope, f"s{n % scopes}"),
                Fact(FactType.SCHEDULED, f"E{n}", ("vm",), f"o{n}"),
            )
            for n in range(events)
        ]
        await self.fleet.store.commit(Batch(NOON, lines=lines))
        self.webhooks._wake()
        return await self.fleet.store.journal(after=before, limit=1_000_000)


def close_connection(handler: BaseHTTPRequestHandler) -> None:
    """Close the connection without a response."""
    handler.connection.close()


@asynccontextmanager
async def webhook_fleet(
    store: Store | None = None,
    environment: Environment | None = None,
    allow: Sequence[str] = ALLOWED,
) -> AsyncIterator[WebhookFleet]:
    """A running fleet with webhooks."""
    store = store or MemoryStore()
    clock = RealClock() if store.shared else VirtualClock(NOON)
    fleet = Fleet(store, clock, InstantDriver())
    await fleet.start()
    webhooks = WebhookService(
        fleet,
        AllowedTargets(allow),
        environment=environment or CountedPauses().environment(),
    )
    await webhooks.start()
    try:
        yield WebhookFleet(fleet, webhooks)
    finally:
        await webhooks.stop()
        await fleet.stop()


@asynccontextmanager
async def subscribed(
    receiver: Receiver, store: Store | None = None, environment: Environment | None = None
) -> AsyncIterator[WebhookFleet]:
    """A running fleet with the machine `vm`, and the webhook `ops` for this receiver."""
    async with webhook_fleet(store, environment) as fleet:
        await fleet.machine()
        await fleet.create(receiver)
        yield fleet
