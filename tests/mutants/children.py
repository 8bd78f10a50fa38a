"""A forked process for each task, a few at a time, with limits."""

import os
import resource
import selectors
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn, TypeVar

T = TypeVar("T")

_IDLE_SECONDS = 20.0
"""A process that does nothing for so long waits for ever."""
_MEMORY_BYTES = 4 << 30
_ERROR = "Traceback"


def fork_each(
    tasks: Iterable[T], work: Callable[[T], str], jobs: int = 1
) -> Iterator[tuple[T, str]]:
    """Do each task in a process of its own; yield its result, "" if the process was ended."""
    left = iter(tasks)
    with selectors.DefaultSelector() as selector:
        while True:
            while len(selector.get_map()) < jobs and (task := next(left, None)) is not None:
                selector.register(_fork(task, work), selectors.EVENT_READ, task)
            if not selector.get_map():
                return
            for key, _ in selector.select():
                selector.unregister(key.fileobj)
                yield key.data, _read(key.fd)


def _fork(task: T, work: Callable[[T], str]) -> int:
    """Return the end of a pipe that the result can be read from."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        _work(task, work, writing)
    os.close(writing)
    return reading


def _work(task: T, work: Callable[[T], str], writing: int) -> NoReturn:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        silent = os.open(os.devnull, os.O_WRONLY)
        for output in (1, 2):
            os.dup2(silent, output)
        result = work(task)
    except BaseException:  # noqa: BLE001  (nothing of the parent goes on in the child)
        result = traceback.format_exc()
    with os.fdopen(writing, "w") as pipe:
        pipe.write(result)
    os._exit(0)


def _read(reading: int) -> str:
    with os.fdopen(reading) as pipe:
        result = pipe.read()
    os.wait()
    if result.startswith(_ERROR):
        raise RuntimeError(result)
    return result


class Limits:
    """Ends this process if a check needs too much CPU time, or waits for ever."""

    def __init__(self) -> None:
        self._used = time.process_time()
        signal.signal(signal.SIGALRM, self._end_if_idle)
        signal.setitimer(signal.ITIMER_REAL, _IDLE_SECONDS, _IDLE_SECONDS)

    @staticmethod
    def begin(seconds: float) -> None:
        """Begin a check that needs so much CPU time if nothing is wrong."""
        signal.setitimer(signal.ITIMER_PROF, 3 + 5 * seconds)  # its signal ends the process

    def _end_if_idle(self, *_: object) -> None:
        before, self._used = self._used, time.process_time()
        if self._used - before < 0.05:
            signal.raise_signal(signal.SIGPROF)
