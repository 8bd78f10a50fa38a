"""Faults on demand (M21): which machines are to meet what real metadata services do on bad days.

Off unless an operator asks. A fault is for one machine, for a scope or for all, for a time or for a
number of requests; the narrowest that applies is taken. What it looks like is the endpoint's.
"""

from collections.abc import Callable
from enum import StrEnum

from fairwarning.core import checks
from fairwarning.core.errors import Refused
from fairwarning.core.record import Check, record

DELAY_MAX_SECONDS = 120.0
_MOST = 10**9


class FaultKind(StrEnum):
    """What goes wrong."""

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
    """One fault, as asked for. Without a count and seconds it stays until it is cleared."""

    kind: FaultKind
    scope: str = ""  # empty: of every machine
    machine: str = ""  # empty: of every machine of the scope
    count: int = 0  # requests it is for; 0: any number
    seconds: float = 0.0  # how long it stays, by the fleet's clock; 0: for ever
    delay_seconds: float = 1.0  # real ones, of a delay


def _up_to(most: float) -> Check:
    def check(value: object) -> str | None:
        if type(value) in {int, float} and 0 <= value <= most:  # type: ignore[operator]
            return None
        return f"a number from 0 to {most:g}"

    return check


_CHECKS: dict[str, Check] = {
    "count": checks.whole(0, _MOST),
    "seconds": _up_to(_MOST),
    "delay_seconds": _up_to(DELAY_MAX_SECONDS),
}


class FaultRules:
    """The faults in force."""

    def __init__(self, now: Callable[[], float], *, shared: bool = False) -> None:
        self._now = now
        self._shared = shared  # by several processes, which know nothing of each other's faults
        self._set: dict[tuple[str, str], tuple[FaultRule, int, float]] = {}
        self.followers: list[Callable[[], None]] = []
        """Called when faults have come or gone."""

    def __bool__(self) -> bool:
        return bool(self._set)

    def put(self, fault: FaultRule) -> None:
        """From now on; in place of another for the same machines."""
        if self._shared:
            text = "faults are for a service of one process; run one with a folder or --memory"
            raise Refused("SharedFleet", text)
        for name, check in _CHECKS.items():
            if allowed := check(getattr(fault, name)):
                raise Refused("BadFault", f"{name} must be {allowed}")
        if fault.machine and not fault.scope:
            raise Refused("BadFault", "a fault for one machine names its scope as well")
        until = self._now() + fault.seconds if fault.seconds else float("inf")
        self._set[fault.scope, fault.machine] = (fault, fault.count, until)
        self._tell()

    def standing(self) -> list[tuple[FaultRule, int]]:
        """Those in force, each with the number of requests it is still for (0: any number)."""
        now = self._now()
        return [(fault, left) for fault, left, until in self._set.values() if now < until]

    def clear(self) -> None:
        """All is well again."""
        self._set.clear()
        self._tell()

    def _tell(self) -> None:
        for follower in self.followers:
            follower()

    def take(self, scope: str, machine: str) -> FaultRule | None:
        """The fault that a request of this machine meets, if any; it is counted."""
        for key in ((scope, machine), (scope, ""), ("", "")):
            if key not in self._set:
                continue
            fault, left, until = self._set[key]
            if self._now() >= until:
                del self._set[key]
                continue
            if left == 1:
                del self._set[key]
            elif left:
                self._set[key] = (fault, left - 1, until)
            return fault
        return None
