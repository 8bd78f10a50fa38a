"""A tour of the Python API: a small fleet on a virtual clock, and the events its machines read.

Nothing here sleeps: fifteen minutes of notice take milliseconds. Run it from a checkout with
`.venv/bin/python examples/tour.py`.
"""

import asyncio
import json

from rich.console import Console
from rich.markup import escape

from fairwarning.core.commands import (
    Approve,
    CreateScope,
    CreateSet,
    Delete,
    Evict,
    OperateInstances,
    Restart,
    StartRollout,
)
from fairwarning.core.model import Machine, Priority, Rollout, ScopeKind
from fairwarning.core.rollout import progress
from fairwarning.core.times import rfc1123
from fairwarning.machines.simulated import SimulatedDriver
from fairwarning.service.clock import VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.store.memory import MemoryStore

MONDAY_MORNING = 1_768_208_400.0  # Mon, 12 Jan 2026 09:00:00 GMT
MINUTE = 60.0
out = Console(highlight=False)


def print_heading(text: str) -> None:
    """Print a heading."""
    out.print(f"\n[bold cyan]{text}[/]")


async def show(fleet: Fleet, scope: str) -> None:
    """Print the document of a scope."""
    published = await fleet.poll(scope)
    document = json.loads(published.body("2020-07-01"))
    time = rfc1123(int(fleet.clock.now()))[17:25]
    if not document["Events"]:
        out.print(f"  {time}  {scope:<5}  [dim]#{published.incarnation}  no events[/]")
    for event in document["Events"]:
        when = f", not before {event['NotBefore'][17:25]}" if event["NotBefore"] else ""
        names = escape(", ".join(event["Resources"]))
        out.print(
            f"  {time}  {scope:<5}  #{published.incarnation}  "
            f"[bold]{event['EventType']}[/] of {names} {event['EventStatus']}{when}"
        )


async def approve(fleet: Fleet, scope: str) -> None:
    """Approve the events of a scope as a machine, so that they start early."""
    published = await fleet.poll(scope)
    events = tuple(published.scope.events) if published.scope else ()
    await fleet.submit(Approve(scope=scope, events=events, actor="machine"))
    time = rfc1123(int(fleet.clock.now()))[17:25]
    out.print(f"  {time}  {scope:<5}  [green]approves[/]")


async def build(fleet: Fleet) -> None:
    """Create an availability set, a Spot machine, and a scale set with termination notice."""
    machines = tuple(Machine(name=f"db_{n}", update_domain=n, host=f"host{n}") for n in range(3))
    await fleet.submit(CreateScope(scope="db", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    spot = Machine(name="batch", priority=Priority.SPOT)
    await fleet.submit(CreateScope(scope="batch", kind=ScopeKind.STANDALONE, machines=(spot,)))
    await fleet.submit(CreateSet(set="web", capacity=4, terminate_seconds=300))


async def tour(fleet: Fleet) -> None:
    """Show four kinds of events."""
    await build(fleet)
    print_heading("1. Machines poll for their document; the first poll enables the feature")
    for scope in ("db", "batch", "web/0"):
        await show(fleet, scope)

    print_heading("2. A user restarts db_0; it prepares, approves, and does not wait 15 minutes")
    await fleet.submit(Restart(scope="db", machines=("db_0",), operation="restart-1"))
    await show(fleet, "db")
    await fleet.advance(2 * MINUTE)
    await approve(fleet, "db")
    await show(fleet, "db")
    await fleet.advance(MINUTE)
    await show(fleet, "db")

    print_heading("3. The platform evicts the Spot machine with 30 seconds' notice")
    await fleet.submit(Evict(scope="batch", machines=("batch",), operation="evict-1"))
    await show(fleet, "batch")
    await fleet.advance(30)
    await show(fleet, "batch")

    print_heading("4. web scales in: the instance gets five minutes' notice before it is deleted")
    delete = OperateInstances(set="web", action=Delete, instances=(3,), operation="delete-1")
    await fleet.submit(delete)
    await show(fleet, "web/0")
    await approve(fleet, "web/0")
    await fleet.advance(MINUTE)
    await show(fleet, "web/0")

    print_heading("5. A host update goes through the update domains of db, one after the other")
    await fleet.submit(StartRollout(rollout="update-1", scopes=("db",)))
    for _ in range(3):
        await show(fleet, "db")
        await fleet.advance(15 * MINUTE + 30)
    rollout = await fleet.reader.read(Rollout, "update-1")
    assert rollout is not None
    out.print(f"  rollout {rollout.status}: {progress(rollout):.0%} of {rollout.machines} machines")


async def main() -> None:
    """Create a fleet from its parts, and run the tour."""
    clock = VirtualClock(MONDAY_MORNING)
    driver = SimulatedDriver(lambda seconds, call: clock.call_at(clock.now() + seconds, call))
    fleet = Fleet(MemoryStore(), clock, driver)
    await fleet.start()
    await tour(fleet)
    await fleet.stop()


if __name__ == "__main__":
    asyncio.run(main())
