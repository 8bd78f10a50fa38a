"""The log of refused approvals: which machine tried, and why nothing was approved (O7).

A client may repeat a bad approval for ever: each reason of a machine is journaled once an hour.
"""

from collections.abc import Callable
from itertools import takewhile

from fairwarning.core.commands import RecordRefusal

_QUIET_SECONDS = 3600.0
_REASONS = 65_536  # of all machines in an hour, several of each of 10,000; no more are journaled


class RefusalLog:
    """Journals refused approvals."""

    def __init__(self, post: Callable[[RecordRefusal], None], now: Callable[[], float]) -> None:
        self._post = post
        self._now = now
        self._quiet_until: dict[tuple[str, str, str], float] = {}  # by scope, machine, reason

    def add(self, scope: str, machine: str, code: str, reason: str) -> None:
        """An approval by this machine was refused; `code` tells reasons apart."""
        now, key = self._now(), (scope, machine, code)
        self._drop_old(now)
        if key not in self._quiet_until and len(self._quiet_until) < _REASONS:
            self._quiet_until[key] = now + _QUIET_SECONDS
            self._post(RecordRefusal(scope=scope, machine=machine, reason=reason, actor="machine"))

    def _drop_old(self, now: float) -> None:
        """Forget the oldest reasons, which come first."""
        for key in list(takewhile(lambda key: self._quiet_until[key] <= now, self._quiet_until)):
            del self._quiet_until[key]
