"""What the shell's tests share: a store that can be made to misbehave, a driver moved by hand."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, ParamSpec

from fairwarning.core.commands import Approve, CreateScope, Restart
from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Entity, Impact, Machine, Ref, Scope, ScopeKind
from fairwarning.machines.driver import Report
from fairwarning.service.clock import VirtualClock
from fairwarning.service.documents import Published
from fairwarning.service.fleet import Fleet
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import Batch
from tests.fixtures.fleet import NOON

P = ParamSpec("P")

LONGEST_SECONDS = 30.0  # no test takes as long; a hang is a failure


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test that is a coroutine, and fail if it hangs."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), LONGEST_SECONDS))

    return run


async def change(published: Published, incarnation: int) -> None:
    """Return once the incarnation is no longer this one."""
    if published.incarnation != incarnation:
        return
    changed = asyncio.Event()
    published.follow(changed.set)
    try:
        await changed.wait()
    finally:
        published.unfollow(changed.set)


class FickleStore(MemoryStore):
    """Fails where `down` says, holds commits while `held`, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.down: set[str] = set()
        self.commits: list[Batch] = []
        self.lies: list[list[Ref]] = []  # what `due` is to answer instead
        self.bug: Exception | None = None  # what `commit` is to raise
        self._go = asyncio.Event()
        self._go.set()
        self.committing = asyncio.Event()

    def hold(self) -> None:
        """Let commits wait from now on."""
        self.committing.clear()
        self._go.clear()

    def release(self) -> None:
        """Let them go on."""
        self._go.set()

    def _fail_if_down(self, name: str) -> None:
        if name in self.down:
            raise Unavailable("StoreDown", f"{name} does not work just now")

    async def load(self, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        self._fail_if_down("load")
        return await super().load(refs)

    async def commit(self, batch: Batch) -> float | None:
        self.committing.set()
        await self._go.wait()
        self._fail_if_down("commit")
        if self.bug is not None:
            raise self.bug
        next_due = await super().commit(batch)
        self.commits.append(batch)
        return next_due

    async def due(self, now: float, limit: int) -> list[Ref]:
        self._fail_if_down("due")
        if self.lies:
            return self.lies.pop(0)
        return await super().due(now, limit)

    async def next_due(self) -> float | None:
        self._fail_if_down("next_due")
        return await super().next_due()


class HandDriver:
    """Keeps what it is given until a test says how it went; raises when told to."""

    def __init__(self) -> None:
        self.given: list[Impact] = []
        self._reports: dict[str, Report] = {}
        self.error: Exception | None = None
        self.on_impact: Callable[[Impact], None] = lambda _: None

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Note it."""
        self.given.append(impact)
        self._reports[impact.id] = report
        self.on_impact(impact)
        if self.error is not None:
            raise self.error

    def finish(self, error: str = "", impact: Impact | None = None) -> None:
        """An impact is over: this one, or the one given last."""
        impact = impact or self.given[-1]
        self._reports[impact.id](impact, error)


class Rig:
    """A running fleet and its parts."""

    def __init__(
        self, fleet: Fleet, store: FickleStore, clock: VirtualClock, driver: HandDriver
    ) -> None:
        self.fleet = fleet
        self.store = store
        self.clock = clock
        self.driver = driver
        self.retries: list[Callable[[], None]] = []
        fleet.retry_later = self.retries.append

    def retry(self) -> None:
        """The second after which things are tried again has passed."""
        retries, self.retries[:] = list(self.retries), []
        for again in retries:
            again()

    async def scope(self, name: str = "vm") -> Scope:
        """A scope as committed."""
        found = await self.fleet.read(Scope, name)
        assert found is not None
        return found

    async def rebooting(self, name: str = "vm") -> Impact:
        """A machine in the middle of a reboot."""
        await self.fleet.submit(standalone(name))
        await self.fleet.poll(name)
        await self.fleet.submit(restart(name))
        (event,) = (await self.scope(name)).events
        await self.fleet.submit(Approve(scope=name, events=(event,)))
        return self.driver.given[-1]


@asynccontextmanager
async def rig(store: FickleStore | None = None, **settings: int) -> AsyncIterator[Rig]:
    """A fleet with parts that can be made to misbehave."""
    store = store or FickleStore()
    clock, driver = VirtualClock(NOON), HandDriver()
    fleet = Fleet(store, clock, driver, **settings)
    await fleet.start()
    yield Rig(fleet, store, clock, driver)
    store.release()
    store.down.clear()
    await fleet.stop()


def standalone(name: str = "vm", address: str = "") -> CreateScope:
    """A machine on its own, scope and machine of one name."""
    machines = (Machine(name=name, address=address),)
    return CreateScope(scope=name, kind=ScopeKind.STANDALONE, machines=machines)


def restart(name: str = "vm", operation: str = "") -> Restart:
    """Its restart."""
    return Restart(scope=name, operation=operation or f"restart {name}", machines=(name,))
