"""Long computations, in threads: those of several clients work in turn (IB4)."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from time import monotonic, sleep
from typing import TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

TURN_SECONDS = 0.002  # that a computation works before others do
_GAP_SECONDS = 0.0001  # between turns: else the event loop waits 5 ms for the interpreter's lock
_BEGUN = 4  # computations, each in a thread: others begin when one of these has ended


class _Stopped(Exception):
    """Nobody waits for the result of the computation."""


class _Computation:
    until = 0.0  # the end of its turn
    stopped = False


class ComputeTurns:
    """Lets each client have one computation. They work one at a time, each for a short turn."""

    def __init__(self) -> None:
        self._clients: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._begun = asyncio.Semaphore(_BEGUN)
        self.queue: deque[_Computation] = deque()  # the first one works
        self._changed = threading.Condition()  # the queue

    async def run(self, client: str, function: Callable[[], T]) -> T:
        """Call a function in a thread; `pause`, which it calls, lets other computations work."""
        own, computation = self._clients.setdefault(client, asyncio.Lock()), _Computation()
        async with own, self._begun:
            try:
                return await asyncio.to_thread(self._run, computation, function)
            finally:
                computation.stopped = True

    def _run(self, computation: _Computation, function: Callable[[], T]) -> T:
        _current.set((self, computation))
        with self._changed:
            self.queue.append(computation)
        self._wait(computation)
        try:
            return function()
        finally:
            with self._changed:
                self.queue.popleft()
                self._changed.notify_all()

    def next_turn(self, computation: _Computation) -> None:
        """Let others work until it is this computation's turn again."""
        if computation.stopped:
            raise _Stopped
        with self._changed:
            self.queue.rotate(-1)
            self._changed.notify_all()
        self._wait(computation)

    def _wait(self, computation: _Computation) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.queue[0] is computation)
        sleep(_GAP_SECONDS)
        computation.until = monotonic() + TURN_SECONDS


_current: ContextVar[tuple[ComputeTurns, _Computation] | None] = ContextVar(
    "_current", default=None
)


def pause() -> None:
    """Let others work if this computation has worked for its turn; elsewhere, do nothing."""
    if (current := _current.get()) and monotonic() >= current[1].until:
        current[0].next_turn(current[1])
