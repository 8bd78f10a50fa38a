"""A thread that does one job after the other for an event loop."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
Job = tuple["asyncio.Future[Any]", Callable[[], Any], Callable[[], None] | None]


class StoreThread:
    """What `ThreadPoolExecutor(1)` is, at half the price a job, and able to clean up afterwards."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def do(self, job: Callable[[], T], afterwards: Callable[[], None] | None = None) -> T:
        """Do it on the thread; then, when the caller has its answer, what is to be done afterwards.

        A caller that is cancelled does not stop a job: it runs to its end, so that a transaction is
        never left half done.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put((future, job, afterwards))
        return await future

    async def stop(self) -> None:
        """Do what was asked for so far, then end."""
        await self.do(lambda: self._jobs.put(None))
        self._thread.join()

    def _work(self) -> None:
        while (task := self._jobs.get()) is not None:
            _answer(*task[:2])
            if task[2] is not None:
                task[2]()
            del task  # keep nothing alive while waiting


def _answer(future: "asyncio.Future[T]", job: Callable[[], T]) -> None:
    tell: Callable[[], None]
    try:
        tell = partial(future.set_result, job())
    except BaseException as error:  # noqa: BLE001  (whatever it is, it is the caller's)
        tell = partial(future.set_exception, error)
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        future.get_loop().call_soon_threadsafe(_unless_cancelled, future, tell)


def _unless_cancelled(future: "asyncio.Future[T]", tell: Callable[[], None]) -> None:
    if not future.cancelled():
        tell()
