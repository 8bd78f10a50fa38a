"""The log of refused approvals: which machine tried, and why nothing was approved (O7).

A client may repeat a bad approval for ever. Repetitions are counted, and journaled less and less
often: after one minute, two, four, and so on up to an hour.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fairwarning.core.commands import RecordRefusal

_FIRST_SECONDS = 60.0
_LAST_SECONDS = 3600.0
_REASONS = 4096  # of all machines; while so many are being repeated, others are not journaled


@dataclass(slots=True)
class _Repeated:
    """A reason that was journaled: until when repetitions are only counted, and how many."""

    until: float
    seconds: float
    count: int = 0


class RefusalLog:
    """Journals refused approvals."""

    def __init__(self, post: Callable[[RecordRefusal], None], now: Callable[[], float]) -> None:
        self._post = post
        self._now = now
        self._repeated: dict[tuple[str, str, str], _Repeated] = {}  # by scope, machine, reason
        self._full_until = 0.0  # no entry ends before then

    def add(self, scope: str, machine: str, code: str, reason: str) -> None:
        """An approval by this machine was refused; `code` tells reasons apart."""
        now, key = self._now(), (scope, machine, code)
        before = self._repeated.get(key)
        if before and now < before.until:
            before.count += 1
            return
        if before is None and len(self._repeated) >= _REASONS and not self._make_room(now):
            return
        seconds, more = _FIRST_SECONDS, ""
        if before and now < before.until + _LAST_SECONDS:
            seconds = min(2 * before.seconds, _LAST_SECONDS)
            more = f" ({before.count} more times since)" if before.count else ""
        self._repeated[key] = _Repeated(now + seconds, seconds)
        self._post(
            RecordRefusal(scope=scope, machine=machine, reason=reason + more, actor="machine")
        )

    def _make_room(self, now: float) -> bool:
        """Forget what was not repeated lately; return whether there is room."""
        if now < self._full_until:
            return False
        repeated = self._repeated
        self._repeated = {key: last for key, last in repeated.items() if now < last.until}
        self._full_until = min((last.until for last in self._repeated.values()), default=now)
        return len(self._repeated) < _REASONS
