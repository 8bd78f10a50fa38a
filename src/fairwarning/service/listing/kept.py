"""Something that is built in memory when it is first used, and forgotten when nobody uses it."""

import asyncio
from abc import ABC, abstractmethod
from time import monotonic

_KEPT_SECONDS = 300.0  # without use


class KeptWhileUsed(ABC):
    """A copy of what the store has, for requests that come again and again."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._used_at = 0.0
        self._forget()

    @abstractmethod
    def _forget(self) -> None:
        """Begin with nothing."""

    def _note_use(self) -> None:
        if not self._used_at:
            asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._forget_if_unused)
        self._used_at = monotonic()

    def _forget_if_unused(self) -> None:
        left = self._used_at + _KEPT_SECONDS - monotonic()
        if left > 0 or self._lock.locked():
            asyncio.get_running_loop().call_later(max(left, 1.0), self._forget_if_unused)
        else:
            self._used_at = 0.0
            self._forget()
