"""The time of each scope's last poll: kept in memory, rarely written to the store (M14)."""

from collections.abc import Callable
from math import inf

from fairwarning.core import limits
from fairwarning.core.commands import Poll
from fairwarning.core.model import Scope


class PollLog:
    """The last poll of each scope, if it is later than the stored one.

    Several processes may receive polls for a scope; once one has written, the others need not.
    """

    def __init__(self, post: Callable[[Poll], None]) -> None:
        self._post = post
        self.collectors: list[Callable[[], None]] = []
        """Called before poll times are read, to record polls that other parts have buffered."""
        self._last: dict[str, float] = {}
        self._posted: dict[str, float] = {}  # submitted, not yet stored
        self._checked_at = 0.0  # when `write_idle` last ran

    def record(self, scope: Scope, now: float) -> None:
        """Record a poll by a machine of this enabled scope."""
        self._last[scope.id] = now
        written = max(scope.polled_at, self._posted.get(scope.id, 0.0))
        if now - written >= _write_interval(scope):
            self._write(scope.id, now)

    def drop_stored(self, scope: Scope) -> None:
        """Drop the poll times that the committed scope already includes."""
        for polled_at in (self._last, self._posted):
            if polled_at.get(scope.id, inf) <= scope.polled_at:
                del polled_at[scope.id]

    def write_idle(self, now: float) -> None:
        """Write the last poll of scopes that stopped polling: other processes rely on it (M14)."""
        if now - self._checked_at >= limits.POLL_WRITE_SECONDS:
            self._checked_at = now
            for scope, last in self._unposted():
                if now - last >= limits.POLL_WRITE_SECONDS:
                    self._write(scope, last)

    def _write(self, scope: str, at: float) -> None:
        self._posted[scope] = at
        self._post(_poll(scope, at))

    def _unposted(self) -> list[tuple[str, float]]:
        self.collect()
        posted = self._posted
        return [(scope, at) for scope, at in self._last.items() if at > posted.get(scope, 0.0)]

    def collect(self) -> None:
        """Record all polls that other parts have buffered."""
        for collector in self.collectors:
            collector()

    def last(self, scope: str) -> float:
        """The time of the scope's last poll, if the store does not have it yet."""
        self.collect()
        return self._last.get(scope, 0.0)

    def forget(self, scope: str) -> None:
        """Drop a scope that was deleted or disabled."""
        self._last.pop(scope, None)
        self._posted.pop(scope, None)

    def unwritten(self) -> list[Poll]:
        """The polls to write before a clean stop."""
        return [_poll(scope, at) for scope, at in self._unposted()]


def _write_interval(scope: Scope) -> float:
    """Seconds between two writes, few enough that no other process considers the scope idle."""
    return min(limits.POLL_WRITE_SECONDS, scope.rules.idle_seconds / 4)


def _poll(scope: str, at: float) -> Poll:
    return Poll(scope=scope, at=at, actor="machine")
