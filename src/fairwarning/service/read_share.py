"""The share of the service that requests may have which only read (IB3).

Such a request takes the reads lane of the store (`store/lanes.py`). It works in short steps, one of
all requests at a time, and lets commands go first. There is a limit to how many are at work, and
none goes on once its caller is gone.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from fairwarning.core import limits
from fairwarning.core.errors import Unavailable
from fairwarning.store import lanes

T = TypeVar("T")
V = TypeVar("V")
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
"""Of an ASGI application: returns a message of type `http.disconnect` once the caller is gone."""

STEP = 50  # journal lines or rows of a step: half a millisecond
_AT_WORK = 4
"""Reads that have begun, while others wait: what they hold in memory is what garbage collection
has to look at, in which nothing else happens."""
_LOOKS = 10  # for commands, before a step: so reads go on, slowly, beside commands without end
_LOOK_SECONDS = 0.001
_QUICK_SECONDS = 0.1  # of most reads, which end before their callers are watched


class CallerGone(Unavailable):
    """The caller has closed its connection."""

    def __init__(self) -> None:
        super().__init__("CallerGone", "the caller is gone")


class ReadShare:
    """Counts the requests that only read, and lets them work in turn."""

    def __init__(self, is_idle: Callable[[], bool]) -> None:
        """`is_idle` says whether the writer has nothing to do."""
        self._is_idle = is_idle
        self._writes = 0  # requests
        self._callers: Counter[str] = Counter()
        self._at_work = asyncio.Semaphore(_AT_WORK)
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def enter(self, caller: str, receive: Receive) -> AsyncIterator[None]:
        """Do the work of a request that only reads; raises `Unavailable` if there are too many."""
        with self._counted(caller), _stopped_without_caller(receive):
            async with self.follow():
                yield

    @contextmanager
    def write(self) -> Iterator[None]:
        """Do the work of a request that writes, also as a part of one that reads."""
        self._writes += 1
        try:
            with lanes.reads_lane(taken=False):
                yield
        finally:
            self._writes -= 1

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Wait for something outside the service, in a request that writes: reads go on."""
        self._writes -= 1
        try:
            yield
        finally:
            self._writes += 1

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Read for a stream; connections limit how many there are."""
        async with self._at_work:
            with lanes.reads_lane():
                yield

    async def turn(self) -> None:
        """Wait for the next step of a request that reads; anything else goes on at once."""
        if not lanes.is_reading():
            return
        async with self._turn:
            await asyncio.sleep(0)
            for _ in range(_LOOKS):
                if not self._writes and self._is_idle():
                    break
                await asyncio.sleep(_LOOK_SECONDS)

    async def map(
        self, function: Callable[[T], V], items: Sequence[T], *, step: int = STEP
    ) -> list[V]:
        """Apply a function to all items, in steps."""
        results: list[V] = []
        for start in range(0, len(items), step):
            await self.turn()
            results += map(function, items[start : start + step])
        return results

    @contextmanager
    def _counted(self, caller: str) -> Iterator[None]:
        if self._callers.total() >= limits.READS or self._callers[caller] >= limits.READS_OF_CALLER:
            raise Unavailable("TooManyReads", "too many requests are reading at once; try again")
        self._callers[caller] += 1
        try:
            yield
        finally:
            self._callers[caller] -= 1
            if not self._callers[caller]:
                del self._callers[caller]


@contextmanager
def _stopped_without_caller(receive: Receive) -> Iterator[None]:
    """Cancel this task's work when its caller is gone, and raise `CallerGone`."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task
    watch: asyncio.Task[None] | None = None
    gone = False

    async def watch_caller() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        task.cancel()

    def begin() -> None:
        nonlocal watch
        watch = loop.create_task(watch_caller())

    timer = loop.call_later(_QUICK_SECONDS, begin)
    try:
        yield
    except asyncio.CancelledError:
        if gone and not task.uncancel():
            raise CallerGone from None
        raise
    finally:
        timer.cancel()
        if watch:
            watch.cancel()
