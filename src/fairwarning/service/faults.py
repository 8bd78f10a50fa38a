"""Fault injection (M21): make the metadata endpoint fail the way real metadata services do.

Off by default. A fault applies to one machine, to a scope or to all machines, for a time or for a
number of requests; the most specific fault wins. The metadata endpoint implements the faults.
"""

from collections.abc import Callable
from enum import StrEnum

from fairwarning.core import checks
from fairwarning.core.errors import Refused
from fairwarning.core.record import Check, record

DELAY_MAX_SECONDS = 120.0
_MAX = 10**9


class FaultKind(StrEnum):
    """The kinds of fault."""

    DELAY = "delay"
    EMPTY = "empty"
    CONTROL = "control"
    TRUNCATED = "truncated"
    NOT_FOUND = "404"
    GONE = "410"
    TOO_MANY = "429"
    ERROR = "500"
    RESET = "reset"


@record
class FaultRule:
    """A requested fault. Without `count` and `seconds` it lasts until it is cleared."""

    kind: FaultKind
    scope: str = ""  # empty: all machines
    machine: str = ""  # empty: all machines of the scope
    count: int = 0  # number of requests to affect; 0: no limit
    seconds: float = 0.0  # duration by the fleet's clock; 0: no limit
    delay_seconds: float = 1.0  # of a delay, in real time


def _up_to(maximum: float) -> Check:
    def check(value: object) -> str | None:
        if type(value) in {int, float} and 0 <= value <= maximum:  # type: ignore[operator]
            return None
        return f"a number from 0 to {maximum:g}"

    return check


_CHECKS: dict[str, Check] = {
    "count": checks.whole(0, _MAX),
    "seconds": _up_to(_MAX),
    "delay_seconds": _up_to(DELAY_MAX_SECONDS),
}


class FaultRules:
    """The active faults."""

    def __init__(self, now: Callable[[], float], *, shared: bool = False) -> None:
        self._now = now
        self._shared = shared  # by several processes, which do not share their faults
        self._active: dict[tuple[str, str], tuple[FaultRule, int, float]] = {}
        self.listeners: list[Callable[[], None]] = []
        """Called after faults are added or cleared."""

    def __bool__(self) -> bool:
        return bool(self._active)

    def put(self, fault: FaultRule) -> None:
        """Add a fault; it replaces a fault for the same machines."""
        if self._shared:
            text = "faults work with a single process only; use a data folder or --memory"
            raise Refused("SharedFleet", text)
        for name, check in _CHECKS.items():
            if allowed := check(getattr(fault, name)):
                raise Refused("BadFault", f"{name} must be {allowed}")
        if fault.machine and not fault.scope:
            raise Refused("BadFault", "a fault for one machine must also name its scope")
        until = self._now() + fault.seconds if fault.seconds else float("inf")
        self._active[fault.scope, fault.machine] = (fault, fault.count, until)
        self._notify()

    def active(self) -> list[tuple[FaultRule, int]]:
        """The active faults, each with the number of requests left (0: no limit)."""
        now = self._now()
        return [(fault, left) for fault, left, until in self._active.values() if now < until]

    def clear(self) -> None:
        """Remove all faults."""
        self._active.clear()
        self._notify()

    def _notify(self) -> None:
        for listener in self.listeners:
            listener()

    def take(self, scope: str, machine: str) -> FaultRule | None:
        """Return the fault for a request of this machine, if any, and count the request."""
        for key in ((scope, machine), (scope, ""), ("", "")):
            if key not in self._active:
                continue
            fault, left, until = self._active[key]
            if self._now() >= until:
                del self._active[key]
                continue
            if left == 1:
                del self._active[key]
            elif left:
                self._active[key] = (fault, left - 1, until)
            return fault
        return None
