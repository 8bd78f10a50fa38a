"""A fleet with webhooks, whose impacts and pauses take no time."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairwarning.core.cascade import JournalLine
from fairwarning.core.commands import Approve, Restart
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.model import Impact, Scope
from fairwarning.machines.driver import Report
from fairwarning.service.clock import RealClock, VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.webhooks.outside import Environment
from fairwarning.service.webhooks.targets import AllowedTargets
from fairwarning.service.webhooks.webhooks import SubscriptionStatus, WebhookService
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, JournalEntry, Store
from tests.fixtures.fleet import NOON, standalone
from tests.fixtures.receiver import SECRET, Receiver
from tests.fixtures.waiting import wait_until_async

ALLOWED = ("127.0.0.1", "localhost")
TOLD = frozenset(
    {
        FactType.SCHEDULED,
        FactType.APPROVED,
        FactType.STARTED,
        FactType.CANCELLED,
        FactType.LAPSED,
        FactType.ENDED,
    }
)


Make = Callable[[Path], Store]
STORES: dict[str, Make] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda folder: SQLiteStore(folder / "fleet.db", reserved_bytes=4096),
}
each_store = pytest.mark.parametrize("make", STORES.values(), ids=STORES)


# --- Time ----------------------------------------------------------------------------------------


class CountedPauses:
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

    def outside(self, **settings: Any) -> Environment:  # noqa: ANN401  (any setting)
        """A world in which pauses are these."""
        given: dict[str, Any] = {
            "sleep": self.sleep,
            "steady": lambda: self.now,
            "chance": random.Random(7),
        }
        return Environment(**(given | settings))


# --- The fleet -----------------------------------------------------------------------------------


class InstantDriver:
    """Carries everything out at once."""

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Done."""
        asyncio.get_running_loop().call_soon(report, impact, "")


class WebhookFleet:
    """A fleet with webhooks, and the means to make things happen in it."""

    def __init__(self, fleet: Fleet, webhooks: WebhookService) -> None:
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
        scope = await self.fleet.reader.read(Scope, name)
        assert scope is not None
        return next(iter(scope.events))

    async def reboot(self, name: str = "vm") -> str:
        """A reboot from its notice to its end: four messages."""
        event = await self.restart(name)
        await self.fleet.submit(Approve(scope=name, events=(event,), actor=name))
        await self.fleet.settled()
        await wait_until_async(lambda: not self._busy(name))
        return event

    def _busy(self, name: str) -> bool:
        entity = self.fleet.reader.cache.get((Scope, name))
        return isinstance(entity, Scope) and bool(entity.impacts)

    async def told(self, after: int = 0) -> list[int]:
        """The numbers of all journal lines that have to be sent."""
        lines = await self.fleet.store.journal(after=after, limit=1_000_000)
        return [one.number for one in lines if one.line.fact.type in TOLD]

    async def caught_up(self, name: str = "ops") -> None:
        """Return once everything so far was sent or given up, and that is durable."""
        last = (await self.told())[-1]
        delivery = self.webhooks._deliveries[f"webhook::{name}"]
        await wait_until_async(lambda: delivery._kept >= last)

    async def status(self, name: str = "ops") -> SubscriptionStatus:
        """How a subscription is."""
        return next(one for one in await self.webhooks.list() if one.name == name)

    def state(self, name: str = "ops") -> str:
        """How a subscription is, in a word."""
        return self.webhooks._deliveries[f"webhook::{name}"].state

    async def invent(self, events: int, scopes: int = 100) -> list[JournalEntry]:
        """Journal lines of events that are long gone, written straight into the store."""
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


@asynccontextmanager
async def webhook_fleet(
    store: Store | None = None,
    outside: Environment | None = None,
    allow: Sequence[str] = ALLOWED,
    **settings: Any,  # noqa: ANN401  (any setting)
) -> AsyncIterator[WebhookFleet]:
    """A running fleet with webhooks."""
    store = store or MemoryStore()
    clock = RealClock() if store.shared else VirtualClock(NOON)
    fleet = Fleet(store, clock, InstantDriver())
    await fleet.start()
    webhooks = WebhookService(
        fleet, AllowedTargets(allow), outside=outside or CountedPauses().outside(), **settings
    )
    await webhooks.start()
    try:
        yield WebhookFleet(fleet, webhooks)
    finally:
        await webhooks.stop()
        await fleet.stop()
