"""Clients whose requests, to any process, are drawn from a seed."""

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
from tests.cluster.cluster import Cluster, WorkerProcess
from tests.cluster.history import History, SubmittedCommand

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
TRIES = 100
PAUSE_SECONDS = 0.1  # the longest pause of a client
Draw = Callable[["Load"], Command]


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


@dataclass(slots=True)
class Load:
    """The clients of one seed, and what they know."""

    cluster: Cluster
    random: Random
    history: History = field(default_factory=History)
    scopes: list[str] = field(default_factory=lambda: [*SETS, *WAVES, GROUP])
    scheduled: dict[str, list[str]] = field(default_factory=dict)  # events, by scope
    count: int = 0

    async def create_fleet(self) -> None:
        """Create the fleet, and poll for its machines."""
        for command in fleet():
            await self._submit_until_available(command)
        for scope in self.scopes:
            await self.poll(scope)

    async def _submit_until_available(self, command: Command) -> None:
        """Retry: with leases this short, the database seems unreachable on a busy machine."""
        for _ in range(TRIES):
            submitted = await self.submit(command)
            if submitted.status != UNAVAILABLE:
                assert submitted.outcome == "done", submitted
                return
            await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError(f"cannot create the fleet: {submitted}")

    async def client(self, stop: asyncio.Event) -> None:
        """Send one request after another until told to stop."""
        while not stop.is_set():
            if self.random.random() < 0.35:
                await self.poll(self.random.choice(self.scopes))
            else:
                await self._submit_or_repeat(self._draw())
            await asyncio.sleep(self.random.random() * PAUSE_SECONDS)

    async def _submit_or_repeat(self, command: Command) -> None:
        """Submit a command; repeat half of those without an answer through another process."""
        submitted = await self.submit(command)
        if isinstance(command, CreateScope):
            self.scopes.append(command.scope)
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
            self.scheduled[scope] = [
                event["EventId"] for event in events if event["EventStatus"] == "Scheduled"
            ]
        elif read:
            self.scheduled.pop(scope, None)

    def _any_process(self) -> WorkerProcess:
        return self.random.choice(self.cluster.processes)

    def _draw(self) -> Command:
        draws, weights = zip(*DRAWS.items(), strict=True)
        draw: Draw = self.random.choices(draws, weights)[0]
        return draw(self)

    # --- Commands ---

    def operation(self) -> str:
        """Return a new operation id."""
        return f"op{self.count + 1}"

    def operate(self) -> Command:
        """Return an operation with notice, on one or two machines."""
        scope = self.random.choice(SETS)
        kind = self.random.choice((Restart, Redeploy, Maintain))
        numbers = self.random.sample(range(6), self.random.choice((1, 1, 2)))
        machines = tuple(f"{scope}-{number}" for number in numbers)
        return kind(scope=scope, machines=machines, operation=self.operation())

    def power(self) -> Command:
        """Return an operation without notice."""
        scope = self.random.choice(SETS)
        kind = self.random.choice((Stop, Start))
        machine = f"{scope}-{self.random.randrange(6)}"
        return kind(scope=scope, machines=(machine,), operation=self.operation())

    def evict(self) -> Command:
        """Return the eviction of a Spot machine."""
        scope = self.random.choice(SETS)
        machine = f"{scope}-{self.random.choice((4, 5))}"
        return Evict(scope=scope, machines=(machine,), operation=self.operation())

    def delete(self) -> Command:
        """Return the deletion of one of two machines, which other commands use as well."""
        scope = self.random.choice(SETS)
        machine = f"{scope}-{self.random.choice((0, 1))}"
        return Delete(scope=scope, machines=(machine,), operation=self.operation())

    def create(self) -> Command:
        """Return the creation of a standalone machine, or an operation on an existing one."""
        standalone = [scope for scope in self.scopes if scope.startswith("alone")]
        if standalone and self.random.random() < 0.4:
            scope = self.random.choice(standalone)
            kind = self.random.choice((Restart, Delete))
            return kind(scope=scope, machines=(scope,), operation=self.operation())
        scope = f"alone{self.count + 1}"
        machine = Machine(name=scope)
        return CreateScope(scope=scope, kind=ScopeKind.STANDALONE, machines=(machine,), rules=QUICK)

    def scale(self) -> Command:
        """Return a change of the scale set's capacity, or an operation on its instances."""
        operation = self.operation()
        if self.random.random() < 0.5:
            return Scale(set=SCALE_SET, capacity=self.random.randrange(1, 6), operation=operation)
        action = self.random.choice((Restart, Redeploy, Delete))
        instances = (self.random.randrange(8),)
        return OperateInstances(
            set=SCALE_SET, action=action, instances=instances, operation=operation
        )

    def approve(self) -> Command:
        """Return an approval of scheduled events, sometimes with an unknown one."""
        scope, events = self._scheduled_events(2)
        if self.random.random() < 0.15:
            events = (*events, NO_EVENT)
        return Approve(scope=scope, events=events)

    def cancel(self) -> Command:
        """Return the cancellation of a scheduled event."""
        scope, events = self._scheduled_events(1)
        return Cancel(scope=scope, event=events[0])

    def _scheduled_events(self, most: int) -> tuple[str, tuple[str, ...]]:
        waiting = [scope for scope, events in self.scheduled.items() if events]
        if not waiting:
            return SETS[0], (NO_EVENT,)
        scope = self.random.choice(waiting)
        events = self.scheduled[scope]
        return scope, tuple(self.random.sample(events, min(len(events), most)))

    def roll_out(self) -> Command:
        """Return a rollout over scopes that share hosts, one host per wave.

        Only the first is accepted: a second one would find the machines busy and wait too long.
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
