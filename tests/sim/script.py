"""The actions a simulation is made of. Concrete, so that a run can be repeated and shrunk."""

from dataclasses import dataclass

from fairwarning.core.commands import Command


@dataclass(frozen=True, slots=True)
class Send:
    """Commands that arrive at the same time (one batch)."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """A machine polls."""

    scope: str
    version: str


@dataclass(frozen=True, slots=True)
class Advance:
    """Time passes."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Die:
    """The process is killed, now or when it next comes to a failpoint; and started again later."""

    failpoint: str  # empty: now
    down_seconds: float


@dataclass(frozen=True, slots=True)
class StopAndStart:
    """The service is stopped cleanly and started again."""


@dataclass(frozen=True, slots=True)
class FillDisk:
    """The store refuses the next commits."""

    commits: int


Action = Send | Read | Advance | Die | StopAndStart | FillDisk
