"""The fleets that are measured: how they are made, opened and put under load."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import uvloop

from fairwarning.core.commands import Command, CreateScope, Poll
from fairwarning.core.model import Impact, Machine, ScopeKind
from fairwarning.machines.driver import Driver, Report
from fairwarning.service.clock import RealClock
from fairwarning.service.committer import CACHED_ENTITIES
from fairwarning.service.fleet import Fleet
from fairwarning.store.store import Store

SUBMITTERS = 64
SCOPE = 100  # machines of a scope, in the small fleet and in the large one
SMALL_FLEET = 100  # machines
DOMAINS = 5
_AT_ONCE = 32  # commands that are under way together while a fleet is made


class Never:
    """A driver whose impacts do not end; counts them."""

    def __init__(self) -> None:
        self.given = 0

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Begin, and leave it at that."""
        self.given += 1


def runner() -> asyncio.Runner:
    """The event loop that the service runs on."""
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


@asynccontextmanager
async def serving(
    store: Store, driver: Driver, cached: int = CACHED_ENTITIES
) -> AsyncIterator[Fleet]:
    """A fleet in real time, started; stopped at the end."""
    fleet = Fleet(store, RealClock(), driver, cached=cached)
    await fleet.start()
    try:
        yield fleet
    finally:
        await fleet.stop()


@contextmanager
def held(store: Store, driver: Driver) -> Iterator[tuple[asyncio.Runner, Fleet]]:
    """The same for whoever is not on an event loop, with the loop."""
    with runner() as loop:
        fleet = Fleet(store, RealClock(), driver)
        loop.run(fleet.start())
        try:
            yield loop, fleet
        finally:
            loop.run(fleet.stop())


def scope_names(count: int) -> list[str]:
    """The scopes of a fleet."""
    return [f"scope-{number:04}" for number in range(count)]


def machine_name(scope: str, number: int) -> str:
    """A machine of a scope."""
    return f"{scope}-vm{number:03}"


def machine(scope: str, number: int, address: str = "") -> Machine:
    """The same, as it is stored."""
    return Machine(
        name=machine_name(scope, number),
        host_name=f"vm{number:03}.example",
        host=f"host-{scope}-{number % 20}",
        address=address,
        update_domain=number % DOMAINS,
    )


async def make(fleet: Fleet, scopes: Sequence[str], machines: int) -> None:
    """Availability sets of so many machines, each machine with an address of its own."""
    await submit_all(
        fleet, (create(at * machines, name, machines) for at, name in enumerate(scopes))
    )


def create(before: int, scope: str, machines: int) -> CreateScope:
    """The command that makes one of them, with so many machines in those before it."""
    first = before + 256
    return CreateScope(
        scope=scope,
        kind=ScopeKind.AVAILABILITY_SET,
        machines=tuple(machine(scope, n, _address(first + n)) for n in range(machines)),
    )


def _address(number: int) -> str:
    return f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


async def enable(fleet: Fleet, scopes: Iterable[str]) -> None:
    """Switch the feature on, as a first poll does; the fleet then has each scope in its cache."""
    await submit_all(fleet, (Poll(scope=scope, actor="machine") for scope in scopes))


async def submit_all(fleet: Fleet, commands: Iterable[Command]) -> None:
    """Submit many, several at once."""
    left = iter(commands)

    async def submit() -> None:
        for command in left:
            await fleet.submit(command)

    await asyncio.gather(*(submit() for _ in range(_AT_ONCE)))
    await fleet.settled()
