"""The time of each scope's last poll: in memory, and now and then recorded in the store (M14).

Recording touches no entity: the store keeps poll times in a table of its own, and one statement
records many of them (X5). A `Poll` command changes a scope, and is posted about once a day.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from zlib import crc32

from fairwarning.core import limits
from fairwarning.core.commands import Poll
from fairwarning.core.model import Scope

STATEMENT_SCOPES = 1000  # recorded at once; commands wait meanwhile
_CHECKED_AT_ONCE = 5000  # scopes, in about two milliseconds

_HASHES = 2**32


class PollLog:
    """The last poll of each scope, if it is later than the scope's own `polled_at`.

    Several processes may receive polls for a scope. Each records those that it received.
    """

    def __init__(self, post: Callable[[Poll], None], wake: Callable[[], None]) -> None:
        self._post = post
        self._wake = wake
        self.collectors: list[Callable[[], None]] = []
        """Called before poll times are read, to record polls that other parts have buffered."""
        self.jumped_at = 0.0
        """When fleet time last jumped: no scope counts as without polls for longer (M14)."""
        self._last: dict[str, float] = {}
        self._recorded: dict[str, float] = {}  # recorded, posted, or waiting for either
        self._waiting: dict[str, float] = {}  # to be recorded
        self._unchecked: list[str] = []  # scopes that `record_idle` has yet to look at
        self._checked_at = 0.0  # when it began to

    def record(self, scope: Scope, now: float) -> None:
        """Record a poll by a machine of this enabled scope."""
        self._last[scope.id] = now
        recorded = max(scope.polled_at, self._recorded.get(scope.id, 0.0))
        if now - recorded >= _record_interval(scope):
            self._recorded[scope.id] = now
            if now - scope.polled_at >= _renewal_age(scope):
                self._post(Poll(scope=scope.id, at=now, actor="machine"))
            else:
                self.put_back({scope.id: now})

    def drop_stored(self, scope: Scope) -> None:
        """Drop the poll times that the committed scope already includes."""
        for polled_at in (self._last, self._recorded, self._waiting):
            at = polled_at.get(scope.id)
            if at is not None and at <= scope.polled_at:
                del polled_at[scope.id]

    def record_idle(self, now: float) -> None:
        """Record the last poll of scopes that stopped polling: other processes rely on it (M14).

        Once the store has it, it is dropped here: another process may have removed the scope. Each
        call, one for each heartbeat, looks at a part of the scopes.
        """
        if not self._unchecked and now - self._checked_at >= limits.POLL_RECORD_SECONDS:
            self._checked_at = now
            self.collect()
            self._unchecked = list(self._last)
        idle = {}
        for scope in self._unchecked[-_CHECKED_AT_ONCE:]:
            last = self._last.get(scope, now)
            if now - last < limits.POLL_RECORD_SECONDS:
                continue
            if last > self._recorded.get(scope, 0.0):
                idle[scope] = last
            elif scope not in self._waiting:
                self.forget(scope)
        del self._unchecked[-_CHECKED_AT_ONCE:]
        self._recorded |= idle
        self.put_back(idle)

    def record_all(self) -> None:
        """Record everything that is known only here, before a clean stop."""
        rest = self._unrecorded()
        self._recorded |= rest
        self.put_back(rest)

    def _unrecorded(self) -> dict[str, float]:
        self.collect()
        recorded = self._recorded
        return {scope: at for scope, at in self._last.items() if at > recorded.get(scope, 0.0)}

    def collect(self) -> None:
        """Record all polls that other parts have buffered."""
        for collector in self.collectors:
            collector()

    def last(self, scope: str) -> float:
        """The time of the scope's last poll through this process, if its entity lacks it."""
        self.collect()
        return self._last.get(scope, 0.0)

    def forget(self, scope: str) -> None:
        """Drop a scope that was deleted or disabled."""
        for polled_at in (self._last, self._recorded, self._waiting):
            polled_at.pop(scope, None)

    # --- For the writer ---

    @property
    def has_waiting(self) -> bool:
        """Whether polls wait to be recorded."""
        return bool(self._waiting)

    def take_waiting(self) -> dict[str, float]:
        """Take some of the polls that wait to be recorded, as many as fit into a statement."""
        taken = dict(islice(self._waiting.items(), STATEMENT_SCOPES))
        for scope in taken:
            del self._waiting[scope]
        return taken

    def put_back(self, polls: Mapping[str, float]) -> None:
        """Let polls wait to be recorded; newer ones that wait already stay."""
        for scope, at in polls.items():
            self._waiting[scope] = max(at, self._waiting.get(scope, 0.0))
        if polls:
            self._wake()


def _record_interval(scope: Scope) -> float:
    """Seconds between two records, few enough that no other process considers the scope idle."""
    return min(limits.POLL_RECORD_SECONDS, scope.rules.idle_seconds / 4)


def _renewal_age(scope: Scope) -> float:
    """The age at which `polled_at` is renewed by a command: between 0.5 and 0.75 of the idle time.

    It differs from scope to scope, so that machines that first asked together do not renew together
    for ever.
    """
    return scope.rules.idle_seconds * (0.5 + 0.25 * crc32(scope.id.encode()) / _HASHES)
