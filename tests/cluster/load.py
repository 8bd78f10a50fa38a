"""Clients: what they ask of whichever process, drawn from a seed."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from fairwarning.core.commands import (
    Approve,
    Cancel,
    Command,
    CreateScope,
    CreateSet,
    Delete,
    Evict,
    Maintain,
    Operate,
    OperateInstances,
    Redeploy,
    Restart,
    Scale,
    SetOperation,
    Start,
    StartRollout,
    Stop,
)
from fairwarning.core.model import (
    EvictionPolicy,
    Machine,
    Priority,
    Rules,
    ScopeKind,
)
from fairwarning.core.record import changed
from tests.cluster.cluster import Cluster, Life
from tests.cluster.history import Asked, History

# Notices so short that they run out while a test waits.
QUICK = Rules(
    freeze_seconds=1,
    reboot_seconds=1,
    redeploy_seconds=1,
    preempt_seconds=1,
    impact_limit_seconds=600,
)
SETS = ("web", "db")  # availability sets
WAVES = ("east", "west")  # share their hosts, and are only rolled out over
SCALE_SET = "pool"
GROUP = f"{SCALE_SET}/0"  # its one placement group
NOBODY = "00000000-0000-8000-8000-000000000000"  # no event's id
UNAVAILABLE = 503
TRIES = 100
PAUSE_SECONDS = 0.1  # of a client, at most
Draw = Callable[["Load"], Command]


def fleet() -> list[Command]:
    """What there is from the beginning."""
    made: list[Command] = [
        CreateScope(
            scope=name,
            kind=ScopeKind.AVAILABILITY_SET,
            machines=tuple(_member(name, number) for number in range(6)),
            rules=QUICK,
        )
        for name in SETS
    ]
    made += [
        CreateScope(
            scope=name,
            kind=ScopeKind.AVAILABILITY_SET,
            machines=tuple(Machine(name=f"{name}-{n}", host=f"host{n}") for n in range(2)),
            rules=QUICK,
        )
        for name in WAVES
    ]
    made.append(CreateSet(set=SCALE_SET, capacity=3, terminate_seconds=300, rules=QUICK))
    return made


def _member(scope: str, number: int) -> Machine:
    return Machine(
        name=f"{scope}-{number}",
        update_domain=number % 2,
        priority=Priority.SPOT if number > 3 else Priority.REGULAR,
        eviction=EvictionPolicy.DELETE if number == 5 else EvictionPolicy.DEALLOCATE,
        terminate_seconds=300 if number == 0 else 0,
    )


@dataclass(slots=True)
class Load:
    """One seed's clients, and what they know."""

    cluster: Cluster
    random: Random
    history: History = field(default_factory=History)
    scopes: list[str] = field(default_factory=lambda: [*SETS, *WAVES, GROUP])
    scheduled: dict[str, list[str]] = field(default_factory=dict)  # events, by scope
    count: int = 0

    async def begin(self) -> None:
        """Make the fleet, and let its machines ask."""
        for command in fleet():
            await self._insist(command)
        for scope in self.scopes:
            await self.poll(scope)

    async def _insist(self, command: Command) -> None:
        """With leases as short as here, a busy machine is enough for a database to seem away."""
        for _ in range(TRIES):
            asked = await self.submit(command)
            if asked.status != UNAVAILABLE:
                assert asked.outcome == "done", asked
                return
            await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError(f"the fleet cannot be made: {asked}")

    async def client(self, fire: asyncio.Event) -> None:
        """Ask one thing after the other, until it is over."""
        while not fire.is_set():
            if self.random.random() < 0.35:
                await self.poll(self.random.choice(self.scopes))
            else:
                await self._ask(self._draw())
            await asyncio.sleep(self.random.random() * PAUSE_SECONDS)

    async def _ask(self, command: Command) -> None:
        """Ask; where no answer comes, ask another in half of the cases: it is the same request."""
        asked = await self.submit(command)
        if isinstance(command, CreateScope):
            self.scopes.append(command.scope)
        again = asked.outcome == "lost" and isinstance(command, Operate | SetOperation)
        if again and self.random.random() < 0.5:
            await self.submit(command)

    async def submit(self, command: Command) -> Asked:
        """Through any process, in a name that is used once."""
        self.count += 1
        life = self._anybody()
        return await self.history.submit(life, changed(command, actor=f"client-{self.count}"))

    async def poll(self, scope: str, life: Life | None = None) -> None:
        """Read, and know what could be approved."""
        read = await self.history.poll(life or self._anybody(), scope)
        if read and read.version is not None:
            events = json.loads(read.body)["Events"]
            self.scheduled[scope] = [
                one["EventId"] for one in events if one["EventStatus"] == "Scheduled"
            ]
        elif read:
            self.scheduled.pop(scope, None)

    def _anybody(self) -> Life:
        return self.random.choice(self.cluster.present)

    def _draw(self) -> Command:
        draws, weights = zip(*DRAWS.items(), strict=True)
        draw: Draw = self.random.choices(draws, weights)[0]
        return draw(self)

    # --- What may be asked ---

    def operation(self) -> str:
        """A name for an operation."""
        return f"op{self.count + 1}"

    def operate(self) -> Command:
        """Something with a notice, to one machine or two."""
        scope = self.random.choice(SETS)
        kind = self.random.choice((Restart, Redeploy, Maintain))
        numbers = self.random.sample(range(6), self.random.choice((1, 1, 2)))
        machines = tuple(f"{scope}-{number}" for number in numbers)
        return kind(scope=scope, machines=machines, operation=self.operation())

    def power(self) -> Command:
        """Something at once."""
        scope = self.random.choice(SETS)
        kind = self.random.choice((Stop, Start))
        machine = f"{scope}-{self.random.randrange(6)}"
        return kind(scope=scope, machines=(machine,), operation=self.operation())

    def evict(self) -> Command:
        """A Spot machine goes."""
        scope = self.random.choice(SETS)
        machine = f"{scope}-{self.random.choice((4, 5))}"
        return Evict(scope=scope, machines=(machine,), operation=self.operation())

    def delete(self) -> Command:
        """A machine goes: one of the two whose names others use as well."""
        scope = self.random.choice(SETS)
        machine = f"{scope}-{self.random.choice((0, 1))}"
        return Delete(scope=scope, machines=(machine,), operation=self.operation())

    def create(self) -> Command:
        """A machine by itself; or one that is there already goes, and its scope with it."""
        alone = [one for one in self.scopes if one.startswith("alone")]
        if alone and self.random.random() < 0.4:
            scope = self.random.choice(alone)
            kind = self.random.choice((Restart, Delete))
            return kind(scope=scope, machines=(scope,), operation=self.operation())
        scope = f"alone{self.count + 1}"
        machine = Machine(name=scope)
        return CreateScope(scope=scope, kind=ScopeKind.STANDALONE, machines=(machine,), rules=QUICK)

    def scale(self) -> Command:
        """The scale set grows or shrinks; or something happens to its instances."""
        operation = self.operation()
        if self.random.random() < 0.5:
            return Scale(set=SCALE_SET, capacity=self.random.randrange(1, 6), operation=operation)
        action = self.random.choice((Restart, Redeploy, Delete))
        instances = (self.random.randrange(8),)
        return OperateInstances(
            set=SCALE_SET, action=action, instances=instances, operation=operation
        )

    def approve(self) -> Command:
        """Events that are waiting; now and then with one that nobody knows."""
        scope, events = self._some(2)
        if self.random.random() < 0.15:
            events = (*events, NOBODY)
        return Approve(scope=scope, events=events)

    def cancel(self) -> Command:
        """An event that is waiting."""
        scope, events = self._some(1)
        return Cancel(scope=scope, event=events[0])

    def _some(self, most: int) -> tuple[str, tuple[str, ...]]:
        waiting = [scope for scope, events in self.scheduled.items() if events]
        if not waiting:
            return SETS[0], (NOBODY,)
        scope = self.random.choice(waiting)
        events = self.scheduled[scope]
        return scope, tuple(self.random.sample(events, min(len(events), most)))

    def roll_out(self) -> Command:
        """Over scopes that share hosts: host by host, each a wave. A second one is refused.

        It would find the machines busy, and wait for longer than a test can.
        """
        return StartRollout(rollout="rollout", scopes=WAVES, by_host=True)


DRAWS: dict[Draw, int] = {
    Load.operate: 30,
    Load.approve: 25,
    Load.scale: 10,
    Load.create: 10,
    Load.cancel: 5,
    Load.evict: 5,
    Load.delete: 4,
    Load.power: 5,
    Load.roll_out: 2,
}
