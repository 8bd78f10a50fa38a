"""What the service knows of the programs that are its machines, and what they have to report."""

from collections.abc import Callable, Iterable

from fairwarning.core import limits
from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.driver import Report
from fairwarning.machines.process.control import ControlConnection

Key = tuple[str, str]
"""Names a machine: its scope's id and its own name."""

# A program that went away is as these would leave it.
_ENDS = {ImpactKind.EVICT, ImpactKind.DELETE, ImpactKind.STOP, ImpactKind.DEALLOCATE}


class PendingImpact:
    """An impact under way: over when each program of its machine has reported, or has gone."""

    def __init__(
        self, impact: Impact, report: Report, programs: Iterable["AttachedProgram"]
    ) -> None:
        self.impact = impact
        self._report = report
        self._left = set(programs)
        self._error = ""

    def settle(self, program: "AttachedProgram", error: str) -> None:
        """One program is through with it. The first error is the one reported."""
        if program not in self._left:
            return
        self._left.discard(program)
        self._error = self._error or error
        if not self._left:
            self._report(self.impact, self._error)


class AttachedProgram:
    """A program that is a machine, or one of several that are the same one."""

    def __init__(self, key: Key, wire: ControlConnection) -> None:
        self.key = key
        self._wire = wire
        self._close_door: Callable[[], None] | None = None
        self._work: dict[str, PendingImpact] = {}

    def opened(self, close_door: Callable[[], None]) -> None:
        """Its endpoint is served from now on; an earlier door closes."""
        self.close_door()
        self._close_door = close_door

    def close_door(self) -> None:
        """Its endpoint is served no longer."""
        close, self._close_door = self._close_door, None
        if close is not None:
            close()

    def order(self, work: PendingImpact) -> None:
        """Let an impact happen to it."""
        impact = work.impact
        self._work[impact.id] = work
        self._wire.send({"order": impact.id, "do": impact.kind.value, "seconds": _seconds(impact)})

    def done(self, impact: str, error: str) -> None:
        """It says that an impact is over."""
        work = self._work.pop(impact, None)
        if work is not None:
            work.settle(self, error)

    def gone(self) -> None:
        """It has hung up, and reports no more."""
        works, self._work = self._work, {}
        for work in works.values():
            ended = work.impact.kind in _ENDS
            work.settle(self, "" if ended else f"the program that is {self.key[1]} went away")


def _seconds(impact: Impact) -> int:
    if impact.kind is ImpactKind.FREEZE and impact.duration_seconds == limits.UNKNOWN_DURATION:
        return limits.FREEZE_DURATION_SECONDS
    return max(0, impact.duration_seconds)
