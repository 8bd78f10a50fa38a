"""A thread that runs jobs of an event loop one after another."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from time import thread_time
from typing import Any, TypeVar, cast

log = logging.getLogger(__name__)

READ_SECONDS = 0.01  # of CPU time, after which a read gives way

T = TypeVar("T")
Job = tuple["asyncio.Future[Any]", Callable[[], Any], Callable[[], None] | None]


class StoreThread:
    """A single-thread executor: half the cost of `ThreadPoolExecutor(1)`, with follow-up work.

    Reads wait in a queue of their own, and run while no other job waits (IB3).
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()  # None: there is another read
        self._reads: deque[Job] = deque()
        self._queued = self._taken = 0  # all but reads; counted by the loop, by the thread
        self._reading: asyncio.Future[Any] | None = None  # of the read that runs
        self._read_began = 0.0  # by the thread's CPU time
        self._stopped = False
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, job: Callable[[], T], afterwards: Callable[[], None] | None = None) -> T:
        """Run a job on the thread and return its result; then run `afterwards`, if given.

        `afterwards` runs once the caller has its result. Cancelling the caller does not stop a job:
        the job runs to its end, so that no transaction is left unfinished.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queued += 1
        self._jobs.put((future, job, afterwards))
        return await future

    async def read(self, job: Callable[[], T]) -> T:
        """Run a job that only reads, after all others, unless its caller is gone by then."""
        future: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        self._add_read(future, lambda: None if future.cancelled() else job())
        return cast("T", await future)

    def _add_read(self, future: "asyncio.Future[Any]", job: Callable[[], Any]) -> None:
        self._reads.append((future, job, None))
        self._jobs.put(None)

    def read_gives_way(self) -> bool:
        """On the thread: whether a read runs that should end, as it is long and in the way."""
        reading = self._reading
        return (
            reading is not None
            and thread_time() > self._read_began + READ_SECONDS
            and (reading.cancelled() or self._queued != self._taken)
        )

    async def stop(self, last: Callable[[], None] = lambda: None) -> None:
        """Finish the jobs queued so far and a last one, then end the thread."""

        def end() -> None:
            last()
            self._stopped = True

        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._add_read(future, end)
        await future
        self._thread.join()

    def _work(self) -> None:
        reads = 0  # that can run
        while not self._stopped:
            try:
                task = self._jobs.get(block=not reads)
            except Empty:
                task = self._reads.popleft()
                reads -= 1
                self._reading, self._read_began = task[0], thread_time()
            else:
                if task is None:
                    reads += 1
                    continue
                self._taken += 1
            _run_job(*task[:2])
            self._reading = None
            if task[2] is not None:
                _run_afterwards(task[2])
            del task  # hold no reference to the job while waiting


def _run_afterwards(afterwards: Callable[[], None]) -> None:
    try:
        afterwards()
    except Exception:  # nobody awaits it, and all that follows would wait for ever (IB6)
        log.exception("follow-up work on the thread of the store failed")


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
