"""SIGTERM and SIGINT end the process within five seconds, whatever it does at that moment (O2).

While the service starts, the start is cancelled. Once it serves, it completes accepted requests. If
either takes too long, the process removes its files and ends.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from time import sleep

log = logging.getLogger(__name__)

STOP_SECONDS = 4.0  # for an orderly stop, so that the process ends within five seconds
_LOG_SECONDS = 0.2  # for the last log line; nobody may read it
_CLEAN, _FORCED = 0, 1  # exit codes


class StopSignal:
    """Handles both signals from now on, for the task that creates it.

    A thread measures the time: the event loop may be blocked, for example by a file on a disk that
    does not answer. The handlers run between the system calls of the blocked thread.
    """

    def __init__(self, seconds: float = STOP_SECONDS) -> None:
        self.leftovers: list[Callable[[], None]] = []
        """Called in another thread if an orderly stop takes too long, before the process ends."""
        self.requested = False
        self.error: Exception | None = None  # why the service gave up
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._starting = True
        self._event = asyncio.Event()
        self._finished = False
        read_end, self._write_end = os.pipe()
        Thread(target=self._limit, args=(read_end,), name="stop limit", daemon=True).start()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.request)

    def request(self, *_: object) -> None:
        """Begin to stop; call it from a signal handler or the event loop."""
        if self.requested:
            return
        self.requested = True
        os.write(self._write_end, b"s")
        with suppress(RuntimeError):  # the loop is closed: the process is about to end
            self._loop.call_soon_threadsafe(self._begin)

    def give_up(self, error: Exception) -> None:
        """Begin to stop because of an error."""
        self.error = error
        self.request()

    def _begin(self) -> None:
        self._event.set()
        if self._starting and self._task is not None:
            self._task.cancel()

    async def wait(self) -> None:
        """Return when a stop is requested. Until this call, a request cancels the task."""
        self._starting = False
        await self._event.wait()

    def finish(self) -> None:
        """Note that the service is closed; only the process itself has to end.

        Raise the error with which it gave up.
        """
        self._finished = True
        if self.error:
            raise self.error

    def _limit(self, read_end: int) -> None:
        os.read(read_end, 1)
        sleep(self._seconds)
        if self._finished:  # a thread of a library does not end
            os._exit(_FORCED if self.error else _CLEAN)
        last_line = Thread(target=self._write_last_line, daemon=True)
        last_line.start()
        last_line.join(_LOG_SECONDS)
        for remove in self.leftovers:
            with suppress(Exception):
                remove()
        os._exit(_FORCED)

    def _write_last_line(self) -> None:
        text = "did not stop within %g seconds; requests in progress are cut off"
        log.error(text, self._seconds)
        logging.shutdown()  # waits for the thread that writes the log
