"""The actions of a simulation. They are plain values, so that a run can be repeated and shrunk."""

from dataclasses import dataclass

from fairwarning.core.commands import Command


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
