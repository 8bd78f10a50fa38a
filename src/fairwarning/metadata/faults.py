"""Faults on demand (M21): what real metadata services do on their bad days.

Off unless an operator asks. A fault is for one machine, for a scope or for all, for a time or for a
number of requests; the narrowest that applies is taken.
"""

from collections.abc import Callable
from enum import StrEnum

from fairwarning.core.errors import Refused
from fairwarning.core.record import record
from fairwarning.metadata.answers import Refusal, render
from fairwarning.metadata.gate import EVENTS, Ask
from fairwarning.metadata.identity import Caller
from fairwarning.service.documents import Published

DELAY_MAX_SECONDS = 120.0


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
class Fault:
    """One fault, as asked for. Without a count and seconds it stays until it is cleared."""

    kind: FaultKind
    scope: str = ""  # empty: of every machine
    machine: str = ""  # empty: of every machine of the scope
    count: int = 0  # requests it is for; 0: any number
    seconds: float = 0.0  # how long it stays, by the fleet's clock; 0: for ever
    delay_seconds: float = 1.0  # real ones, of a delay


_REFUSALS = {
    FaultKind.NOT_FOUND: Refusal(404, "fault", "Not found. This fault was asked for."),
    FaultKind.GONE: Refusal(410, "fault", "Gone for the moment. This fault was asked for."),
    FaultKind.TOO_MANY: Refusal(
        429, "fault", "Too many requests. This fault was asked for.", "Retry-After: 1\r\n"
    ),
    FaultKind.ERROR: Refusal(500, "fault", "Internal error. This fault was asked for."),
}


class Faults:
    """The faults in force."""

    def __init__(self, now: Callable[[], float], changed: Callable[[], None]) -> None:
        self._now = now
        self._changed = changed
        self._set: dict[tuple[str, str], tuple[Fault, int, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._set)

    def put(self, fault: Fault) -> None:
        """From now on; in place of another for the same machines."""
        if fault.machine and not fault.scope:
            raise Refused("BadFault", "a fault for one machine names its scope as well")
        if fault.count < 0 or fault.seconds < 0:
            raise Refused("BadFault", "count and seconds are 0 (no limit) or more")
        if not 0 <= fault.delay_seconds <= DELAY_MAX_SECONDS:
            raise Refused("BadFault", f"delay_seconds is 0 to {DELAY_MAX_SECONDS:g}")
        until = self._now() + fault.seconds if fault.seconds else float("inf")
        self._set[fault.scope, fault.machine] = (fault, fault.count, until)
        self._changed()

    def clear(self) -> None:
        """All is well again."""
        self._set.clear()
        self._changed()

    def take(self, caller: Caller) -> Fault | None:
        """The fault that this request meets, if any; it is counted."""
        for key in ((caller.scope, caller.name), (caller.scope, ""), ("", "")):
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


def spoil(kind: FaultKind, published: Published, ask: Ask) -> bytes:
    """What is sent instead of the document; the connection is closed after it."""
    if refusal := _REFUSALS.get(kind):
        return refusal.answer(close=True)
    if kind is FaultKind.EMPTY:
        return render(200, close=True)
    body = published.body(ask.version) if ask.path == EVENTS else b"{}"
    if kind is FaultKind.CONTROL:
        return render(200, b"\x00\x07\x1b" + body + b"\x1f", close=True)
    assert kind is FaultKind.TRUNCATED
    whole = render(200, body, close=True)
    return whole[: len(whole) - len(body) // 2 - 1]
