"""Fleets for measurements: creation, start and load."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import uvloop

from fairwarning.core.commands import Command, CreateScope, Poll
from fairwarning.core.model import Impact, Machine, ScopeKind
from fairwarning.machines.driver import Driver, Report
from fairwarning.service.clock import RealClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.writer.committer import CACHED_ENTITIES
from fairwarning.store.store import Store

SUBMITTERS = 64
SCOPE = 100  # machines per scope, in the small and the large fleet
SMALL_FLEET = 100  # machines
DOMAINS = 5
_AT_ONCE = 32  # concurrent commands while a fleet is created


class Never:
    """A driver whose impacts never end; it counts them."""

    def __init__(self) -> None:
        self.impacts = 0

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Count the impact."""
        self.impacts += 1


def runner() -> asyncio.Runner:
    """The event loop that the service runs on."""
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


@asynccontextmanager
async def serving(
    store: Store, driver: Driver, cached: int = CACHED_ENTITIES
) -> AsyncIterator[Fleet]:
    """A running fleet in real time."""
    fleet = Fleet(store, RealClock(), driver, cached=cached)
    await fleet.start()
    try:
        yield fleet
    finally:
        await fleet.stop()


def scope_names(count: int) -> list[str]:
    """The scopes of a fleet."""
    return [f"scope-{number:04}" for number in range(count)]


def machine_name(scope: str, number: int) -> str:
    """The name of a machine of a scope."""
    return f"{scope}-vm{number:03}"


def machine(scope: str, number: int, address: str = "") -> Machine:
    """A machine of a scope."""
    return Machine(
        name=machine_name(scope, number),
        host_name=f"vm{number:03}.example",
        host=f"host-{scope}-{number % 20}",
        address=address,
        update_domain=number % DOMAINS,
    )


async def make(fleet: Fleet, scopes: Sequence[str], machines: int) -> None:
    """Create availability sets; each machine has its own address."""
    await submit_all(
        fleet, (create(at * machines, name, machines) for at, name in enumerate(scopes))
    )


def create(before: int, scope: str, machines: int) -> CreateScope:
    """The command that creates a scope; `before` machines have addresses already."""
    first = before + 256
    return CreateScope(
        scope=scope,
        kind=ScopeKind.AVAILABILITY_SET,
        machines=tuple(machine(scope, n, _address(first + n)) for n in range(machines)),
    )


def _address(number: int) -> str:
    return f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


async def enable(fleet: Fleet, scopes: Iterable[str]) -> None:
    """Enable the scopes, as a first poll does; this also caches them."""
    await submit_all(fleet, (Poll(scope=scope, actor="machine") for scope in scopes))


async def submit_all(fleet: Fleet, commands: Iterable[Command]) -> None:
    """Submit commands, several concurrently."""
    left = iter(commands)

    async def submit() -> None:
        for command in left:
            await fleet.submit(command)

    await asyncio.gather(*(submit() for _ in range(_AT_ONCE)))
    await fleet.settled()
