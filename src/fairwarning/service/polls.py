"""Who asked, and when: kept in memory, written seldom (M14)."""

from collections.abc import Callable
from math import inf

from fairwarning.core import limits
from fairwarning.core.commands import Poll
from fairwarning.core.model import Scope


class PollLog:
    """The last poll of each scope, where it is later than what is on record.

    Several processes may be asked for one scope. Any of them writes it, and the others see that.
    """

    def __init__(self, post: Callable[[Poll], None]) -> None:
        self._post = post
        self.collectors: list[Callable[[], None]] = []
        """Called before it matters who asked: they tell what they have counted by themselves."""
        self._last: dict[str, float] = {}
        self._posted: dict[str, float] = {}  # about to be on record
        self._looked = 0.0  # for who is quiet

    def seen(self, scope: Scope, now: float) -> None:
        """A machine of this enabled scope asked."""
        self._last[scope.id] = now
        written = max(scope.polled_at, self._posted.get(scope.id, 0.0))
        if now - written >= _apart(scope):
            self._write(scope.id, now)

    def recorded(self, scope: Scope) -> None:
        """What is on record of the scope has changed: it may say all that is known here."""
        for known in (self._last, self._posted):
            if known.get(scope.id, inf) <= scope.polled_at:
                del known[scope.id]

    def write_late(self, now: float) -> None:
        """Now and then, who asked and then fell quiet: other processes may decide by it (M14)."""
        if now - self._looked >= limits.POLL_WRITE_SECONDS:
            self._looked = now
            for scope, last in self._kept_back():
                if now - last >= limits.POLL_WRITE_SECONDS:
                    self._write(scope, last)

    def _write(self, scope: str, at: float) -> None:
        self._posted[scope] = at
        self._post(_poll(scope, at))

    def _kept_back(self) -> list[tuple[str, float]]:
        self.collect()
        posted = self._posted
        return [(scope, at) for scope, at in self._last.items() if at > posted.get(scope, 0.0)]

    def collect(self) -> None:
        """From here on everybody who has asked is known."""
        for collector in self.collectors:
            collector()

    def last(self, scope: str) -> float:
        """When the scope was last asked for, if that is not on record."""
        self.collect()
        return self._last.get(scope, 0.0)

    def forget(self, scope: str) -> None:
        """The scope is gone, or off."""
        self._last.pop(scope, None)
        self._posted.pop(scope, None)

    def unwritten(self) -> list[Poll]:
        """What a clean stop still has to write."""
        return [_poll(scope, at) for scope, at in self._kept_back()]


def _apart(scope: Scope) -> float:
    """Seconds between two writes: whoever knows only these must not think that nobody asks."""
    return min(limits.POLL_WRITE_SECONDS, scope.rules.idle_seconds / 4)


def _poll(scope: str, at: float) -> Poll:
    return Poll(scope=scope, at=at, actor="machine")
