"""Clients whose requests, to any process, are drawn from a seed."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from fairwarning.core.commands import (
    Approve,
    Command,
    CreateScope,
    CreateSet,
    Delete,
    Evict,
    Maintain,
    Operate,
    Redeploy,
    Restart,
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
    ScaleSet,
    Scope,
    ScopeKind,
)
from fairwarning.core.record import changed
from tests.cluster.cluster import Cluster, History, SubmittedCommand, WorkerProcess
from tests.fixtures.random_commands import PolledFleet, RandomCommands
from tests.fixtures.waiting import WaitLimit

# Notices short enough for a test to wait.
QUICK = Rules(
    freeze_seconds=1,
    reboot_seconds=1,
    redeploy_seconds=1,
    preempt_seconds=1,
    impact_limit_seconds=600,
)
SETS = ("web", "db")  # availability sets
WAVES = ("east", "west")  # they share hosts and are only used for rollouts
SCALE_SET = "pool"
GROUP = f"{SCALE_SET}/0"  # its only placement group
NO_EVENT = "00000000-0000-8000-8000-000000000000"  # not the id of any event
UNAVAILABLE = 503
PAUSE_SECONDS = 0.1  # the longest pause of a client


def fleet() -> list[Command]:
    """Return the commands that create the fleet."""
    commands: list[Command] = [
        CreateScope(
            scope=name,
            kind=ScopeKind.AVAILABILITY_SET,
            machines=tuple(_member(name, number) for number in range(6)),
            rules=QUICK,
        )
        for name in SETS
    ]
    commands += [
        CreateScope(
            scope=name,
            kind=ScopeKind.AVAILABILITY_SET,
            machines=tuple(
                Machine(name=f"{name}-{number}", host=f"host{number}") for number in range(2)
            ),
            rules=QUICK,
        )
        for name in WAVES
    ]
    commands.append(CreateSet(set=SCALE_SET, capacity=3, terminate_seconds=300, rules=QUICK))
    return commands


def _member(scope: str, number: int) -> Machine:
    return Machine(
        name=f"{scope}-{number}",
        update_domain=number % 2,
        priority=Priority.SPOT if number > 3 else Priority.REGULAR,
        eviction=EvictionPolicy.DELETE if number == 5 else EvictionPolicy.DEALLOCATE,
        terminate_seconds=300 if number == 0 else 0,
    )


class ClusterCommands(RandomCommands):
    """Commands for the fleet, after which everything finishes soon."""

    SHARES: ClassVar[Mapping[str, float]] = {
        "operate": 0.46,
        "approve": 0.26,
        "change_set": 0.10,
        "create": 0.11,
        "cancel": 0.05,
        "roll_out": 0.02,
    }
    known: PolledFleet

    def __init__(self, random: Random) -> None:
        known = PolledFleet()
        for command in fleet():
            if isinstance(command, CreateScope) and command.scope in SETS:
                known.add(command)
        known.sets[SCALE_SET] = ScaleSet(id=SCALE_SET, name=SCALE_SET, groups=(GROUP,))
        instances = [Machine(name=f"{SCALE_SET}_{n}", instance=n) for n in range(8)]
        machines = {machine.name: machine for machine in instances}
        known.scopes[GROUP] = Scope(
            id=GROUP, kind=ScopeKind.PLACEMENT_GROUP, owner=SCALE_SET, machines=machines
        )
        super().__init__(random, known)

    def rules(self) -> Rules:
        return QUICK

    def operations(self, scope: Scope) -> Sequence[type[Operate]]:
        """Mostly operations with notice; machines are deleted seldom, as none comes back."""
        if scope.kind is ScopeKind.STANDALONE:
            return (Restart, Delete)
        with_notice = (Restart, Redeploy, Maintain)
        kinds = (*with_notice, *with_notice, *with_notice, Stop, Start, Evict)
        return kinds if scope.owner else (*kinds, Delete)

    def create(self) -> Command:
        """Draw a new standalone machine."""
        name = self.name("alone")
        machine = Machine(name=name)
        return CreateScope(scope=name, kind=ScopeKind.STANDALONE, machines=(machine,), rules=QUICK)

    def approve(self) -> Command:
        """Draw an approval, sometimes with an unknown event."""
        approve = super().approve()
        if not isinstance(approve, Approve):
            return Approve(scope=SETS[0], events=(NO_EVENT,))
        if self.random.random() < 0.15:
            return changed(approve, events=(*approve.events, NO_EVENT))
        return approve

    def change_set(self) -> Command:
        """Draw another capacity, or an operation on instances."""
        if self.random.random() < 0.5:
            return self.scale(SCALE_SET)
        return self.operate_instances(SCALE_SET, self.instances(SCALE_SET))

    def roll_out(self) -> Command:
        """Return a rollout over scopes that share hosts, one host per wave.

        Only the first is accepted: a second one would find the machines busy and wait too long.
        """
        return StartRollout(rollout="rollout", scopes=WAVES, by_host=True)


@dataclass(slots=True)
class Load:
    """The clients of one seed, and what they know."""

    cluster: Cluster
    random: Random
    history: History = field(default_factory=History)
    scopes: list[str] = field(default_factory=lambda: [*SETS, *WAVES, GROUP])
    count: int = 0
    commands: ClusterCommands = field(init=False)

    def __post_init__(self) -> None:
        self.commands = ClusterCommands(self.random)

    def scheduled(self, scope: str) -> list[str]:
        """Return the scheduled events of a scope, by its last poll."""
        events = self.commands.known.open
        return [name for name, event in events.items() if event.scope == scope]

    async def create_fleet(self) -> None:
        """Create the fleet, and poll for its machines."""
        for command in fleet():
            await self._submit_until_available(command)
        for scope in self.scopes:
            await self.poll(scope)

    async def _submit_until_available(self, command: Command) -> None:
        """Retry: with leases this short, the database seems unreachable on a busy machine."""
        limit = WaitLimit()
        while (submitted := await self.submit(command)).status == UNAVAILABLE:
            limit.check(f"the fleet is created: {submitted}")
            await asyncio.sleep(PAUSE_SECONDS)
        assert submitted.outcome == "done", submitted

    async def client(self, stop: asyncio.Event) -> None:
        """Send one request after another until told to stop."""
        while not stop.is_set():
            if self.random.random() < 0.35:
                await self.poll(self.random.choice(self.scopes))
            else:
                await self._submit_or_repeat(self.commands.command())
            await asyncio.sleep(self.random.random() * PAUSE_SECONDS)

    async def _submit_or_repeat(self, command: Command) -> None:
        """Submit a command; repeat half of those without an answer through another process."""
        submitted = await self.submit(command)
        if isinstance(command, CreateScope):
            self.scopes.append(command.scope)
            self.commands.known.add(command)
        lost = submitted.outcome == "lost" and isinstance(command, Operate | SetOperation)
        if lost and self.random.random() < 0.5:
            await self.submit(command)

    async def submit(self, command: Command) -> SubmittedCommand:
        """Submit a command through any process, with a unique actor."""
        self.count += 1
        process = self._any_process()
        return await self.history.submit(process, changed(command, actor=f"client-{self.count}"))

    async def poll(self, scope: str, process: WorkerProcess | None = None) -> None:
        """Poll a scope and remember the events that could be approved."""
        read = await self.history.poll(process or self._any_process(), scope)
        if read and read.version is not None:
            events = json.loads(read.body)["Events"]
            scheduled = [e["EventId"] for e in events if e["EventStatus"] == "Scheduled"]
            self.commands.known.poll(scope, scheduled)
        elif read:
            self.commands.known.poll(scope, ())

    def _any_process(self) -> WorkerProcess:
        return self.random.choice(self.cluster.processes)
