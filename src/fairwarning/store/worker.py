"""A thread that runs jobs of an event loop one after another."""

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
    """A single-thread executor: half the cost of `ThreadPoolExecutor(1)`, with follow-up work."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, job: Callable[[], T], afterwards: Callable[[], None] | None = None) -> T:
        """Run a job on the thread and return its result; then run `afterwards`, if given.

        `afterwards` runs once the caller has its result. Cancelling the caller does not stop a job:
        the job runs to its end, so that no transaction is left unfinished.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put((future, job, afterwards))
        return await future

    async def stop(self) -> None:
        """Finish the jobs queued so far, then end the thread."""
        await self.run(lambda: self._jobs.put(None))
        self._thread.join()

    def _work(self) -> None:
        while (task := self._jobs.get()) is not None:
            _run_job(*task[:2])
            if task[2] is not None:
                task[2]()
            del task  # hold no reference to the job while waiting


def _run_job(future: "asyncio.Future[T]", job: Callable[[], T]) -> None:
    resolve: Callable[[], None]
    try:
        resolve = partial(future.set_result, job())
    except BaseException as error:  # noqa: BLE001  (every exception is the caller's to handle)
        resolve = partial(future.set_exception, error)
    with suppress(RuntimeError):  # the loop is closed: nothing awaits the future
        future.get_loop().call_soon_threadsafe(_unless_cancelled, future, resolve)


def _unless_cancelled(future: "asyncio.Future[T]", resolve: Callable[[], None]) -> None:
    if not future.cancelled():
        resolve()
