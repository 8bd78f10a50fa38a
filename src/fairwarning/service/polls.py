"""Who asked, and when: kept in memory, written seldom (M14)."""

from collections.abc import Callable

from fairwarning.core import limits
from fairwarning.core.commands import Poll


class Polls:
    """The last poll of each scope. A poll costs two dictionary look-ups."""

    def __init__(self, post: Callable[[Poll], None]) -> None:
        self._post = post
        self.collectors: list[Callable[[], None]] = []
        """Called before it matters who asked: they tell what they have counted by themselves."""
        self._last: dict[str, float] = {}
        self._written: dict[str, float] = {}
        self._looked = 0.0  # when the last of late ones was written

    def seen(self, scope: str, now: float) -> None:
        """A machine of this enabled scope asked."""
        self._last[scope] = now
        if now - self._written.get(scope, 0.0) >= limits.POLL_WRITE_SECONDS:
            self._written[scope] = now
            self._post(Poll(scope=scope, at=now, actor="machine"))

    def written(self, scope: str, now: float) -> None:
        """It was asked for, and that is on record."""
        self._last[scope] = self._written[scope] = now

    def write_late(self, now: float) -> None:
        """Now and then, all that is not written yet: other processes may decide by it (M14)."""
        if now - self._looked >= limits.POLL_WRITE_SECONDS:
            self._looked = now
            for poll in self.unwritten():
                self._written[poll.scope] = self._last[poll.scope]
                self._post(poll)

    def collect(self) -> None:
        """Up to now, everybody who asked is on record."""
        for collector in self.collectors:
            collector()

    def last(self, scope: str) -> float:
        """When the scope was last asked for, as far as this process knows."""
        self.collect()
        return self._last.get(scope, 0.0)

    def forget(self, scope: str) -> None:
        """The scope is gone, or off."""
        self._last.pop(scope, None)
        self._written.pop(scope, None)

    def unwritten(self) -> list[Poll]:
        """What a clean stop still has to write."""
        self.collect()
        return [
            Poll(scope=scope, at=last, actor="machine")
            for scope, last in self._last.items()
            if last > self._written.get(scope, 0.0)
        ]
