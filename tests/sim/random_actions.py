"""The actions of a simulation, and the choice of the next one, from one `Random` with the seed.

They are plain values, so that a run can be repeated and shrunk.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from fairwarning.core import limits
from fairwarning.core.commands import (
    Approve,
    Command,
    CreateScope,
    CreateSet,
    Degrade,
    Operate,
    Restart,
)
from fairwarning.core.record import changed
from fairwarning.service import failpoints
from tests.fixtures.random_commands import RandomCommands
from tests.sim import resources
from tests.sim.observed_state import FIELDS
from tests.sim.observer import Observer


@dataclass(frozen=True, slots=True)
class Send:
    """Submit commands at the same time, as one batch."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """Poll as a machine."""

    scope: str
    version: str


@dataclass(frozen=True, slots=True)
class Advance:
    """Advance the time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the process, now or when it next reaches a failpoint, and start it again later."""

    failpoint: str  # empty: now
    down_seconds: float
    reboot: bool = False  # the host too, if the process is killed now
    step_seconds: float | None = None  # of the wall clock while it reboots; 0: it is right then


@dataclass(frozen=True, slots=True)
class StopAndStart:
    """Stop the service cleanly and start it again."""


@dataclass(frozen=True, slots=True)
class FillDisk:
    """Make the store refuse the next commits."""

    commits: int


@dataclass(frozen=True, slots=True)
class DropOld:
    """Run retention once."""


@dataclass(frozen=True, slots=True)
class StepWall:
    """Step the host's wall clock; by 0: set it right."""

    seconds: float


Action = Send | Read | Advance | Kill | StopAndStart | FillDisk | DropOld | StepWall


VERSIONS = tuple(FIELDS)
CRASH_POINTS = tuple(n for n in failpoints.NAMES if not n.startswith(("start", "stop")))

USUAL = 0.16, 0.17, 0.77, 0.97, 0.985, 0.99, 0.995
"""Of a number below 1, for each action in order: mostly time, reads, commands; rarely a fault."""
FAULTS = 0.30, 0.31, 0.50, 0.70, 0.82, 0.84, 0.94
"""The same with many faults, of which several together may break what each alone does not."""


class SimulatedCommands(RandomCommands):
    """Commands for a simulated fleet, with resources, repetitions and late approvals."""

    SHARES: ClassVar[Mapping[str, float]] = {
        "approve": 0.40,
        "operate": 0.28,
        "change_set": 0.12,
        "roll_out": 0.10,
        "cancel": 0.04,
        "change_scope": 0.02,
        "write": 0.02,
        "create": 0.02,
    }

    REUSED = 0.1
    EXTREME = 0.05

    def __init__(self, random: Random, observer: Observer) -> None:
        super().__init__(random, observer)
        self.observer = observer
        self.sent: list[Command] = []

    def fleet(self) -> list[Command]:
        """Draw an initial fleet."""
        commands: list[Command] = [resources.group(name) for name in resources.GROUPS]
        commands += [self.create_scope() for _ in range(self.random.choice((1, 2, 4)))]
        commands += [self.create_set() for _ in range(self.random.choice((0, 1, 1, 2)))]
        return commands

    def with_resources(self, command: CreateScope | CreateSet) -> Command:
        return resources.create(self.random, command)

    def command(self) -> Command:
        """Draw a command, or repeat one."""
        if self.sent and self.random.random() < 0.06:
            return self._again(self.random.choice(self.sent[-40:]))
        if self.observer.forgotten and self.random.random() < 0.05:
            return self.random.choice(self.observer.forgotten[-20:])
        command = super().command()
        self.sent.append(command)
        return command

    def _again(self, command: Command) -> Command:
        """A repeated or delayed command; sometimes its key with another command."""
        if isinstance(command, Operate) and self.observer.scopes and self.random.random() < 0.2:
            return Restart(
                scope=self.any_scope(), machines=command.machines, operation=command.operation
            )
        return command

    def operate(self) -> Command:
        """Draw an operation; a failure that is predicted often has a time."""
        command = super().operate()
        if isinstance(command, Degrade) and self.random.random() < 0.5:
            seconds = self.random.choice((900, 3600, limits.DEGRADE_MAX_SECONDS))
            return changed(command, not_before=int(self.observer.at) + seconds)
        return command

    def approve(self) -> Command | None:
        """Draw an approval, sometimes of an event that has ended."""
        if not self.observer.open:
            return None
        if self.random.random() < 0.05 and (gone := list(self.observer.gone_at)[-20:]):
            event = self.random.choice(gone)
            scope = self.observer.events[event].scope
            return Approve(scope=scope, events=(event,), actor="machine")
        return super().approve()

    def write(self) -> Command | None:
        """Draw a change of resources."""
        draw = self.random.random()
        if draw < 0.1:
            return resources.remove_group(self.random, self.observer, self.name("op"))
        if draw < 0.3:
            return resources.group(self.random.choice(resources.GROUPS))
        if draw < 0.4:
            return resources.plain(self.random, self.name("disk"))
        if draw < 0.45:
            return resources.remove(self.random, self.observer, self.name("op"))
        return resources.rewrite(self.random, self.observer)


class RandomActions:
    """Chooses the next action, given the observed state."""

    def __init__(self, seed: int, observer: Observer) -> None:
        self.random = Random(seed)
        self.observer = observer
        self.commands = SimulatedCommands(self.random, observer)
        self.limits = FAULTS if seed % 10 == 9 else USUAL
        if seed % 25 == 0:
            self.commands.sizes = (3, 20, 60, 101)

    def fleet(self) -> list[Action]:
        """Create a random initial fleet."""
        return [Send((command,)) for command in self.commands.fleet()]

    def action(self) -> Action:
        """Choose an action."""
        draw = self.random.random()
        advance, drop, read, send, kill, stop, step = self.limits
        if draw < advance:
            return Advance(self._seconds())
        if draw < drop:
            return DropOld()
        if draw < read and self.observer.scopes:
            newest = self.random.random() < 0.7
            scope = self.commands.any_scope()
            return Read(scope, "2020-07-01" if newest else self.random.choice(VERSIONS))
        if draw < send:
            count = self.random.choice((1, 1, 2, 4, 8))
            return Send(tuple(self.commands.command() for _ in range(count)))
        if draw < kill:
            point = self.random.choice(("", *CRASH_POINTS))
            reboot = self.random.random() < 0.3
            wall = self.random.choice((None, 0.0, -7200.0, 3600.0))
            return Kill(point, self.random.choice((0.0, 1.0, 30.0, 1000.0)), reboot, wall)
        if draw < stop:
            return StopAndStart()
        if draw < step:
            return StepWall(self.random.choice((-3600.0, -60.0, -3.0, 0.0, 3.0, 60.0, 3600.0)))
        return FillDisk(self.random.randrange(1, 3))

    def _seconds(self) -> float:
        draw = self.random.random()
        if draw < 0.8:
            return self.random.choice((0.0, 0.1, 0.5, 1.0, 1.0, 3.0, 7.5, 20.0, 30.0, 60.0))
        if draw < 0.993:
            return self.random.choice((60.0, 299.0, 300.0, 600.0, 901.0))
        return self.random.choice((4_000.0, 40_000.0, 100_000.0))
