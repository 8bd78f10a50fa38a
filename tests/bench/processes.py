"""Measured servers: each is a process, on another core than the load."""

import ctypes
import os
import resource
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

_STOP_SECONDS = 10.0

CORES: Final = sorted(os.sched_getaffinity(0))
SERVER_CORE: Final = CORES[0]
LOAD_CORE: Final = CORES[-1]  # the same core on a single-core machine


@contextmanager
def pinned(*cores: int) -> Iterator[None]:
    """Pin processes that are started in this block, and their children, to these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def most_descriptors() -> int:
    """Raise the limit of descriptors for this process and its children; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def cpu_seconds(pids: Iterable[int]) -> float:
    """The CPU time of processes with all their threads, in nanosecond resolution."""
    return sum(time.clock_gettime(_clock(pid)) for pid in pids)


def cpu_since(pids: Iterable[int], before: float) -> float:
    """The CPU time since `cpu_seconds` was `before`.

    Never zero: the clock of a process that runs on another core may lag behind by a tick.
    """
    return max(cpu_seconds(pids) - before, 1e-6)


def family_seconds(process: int) -> float:
    """The CPU time of a server and of all its children, those that have ended included."""
    children = Path(f"/proc/{process}/task/{process}/children")
    while True:
        ended = _ended_seconds(process)
        total = ended
        for pid in (process, *map(int, children.read_text("ascii").split())):
            with suppress(ProcessLookupError):
                total += cpu_seconds([pid])
        if _ended_seconds(process) == ended:  # no child was counted twice or not at all
            return total


def _ended_seconds(process: int) -> float:
    """The CPU time of the children that have ended, in clock ticks of the system."""
    fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _clock(pid: int) -> int:
    clock = ctypes.c_int()
    failed = ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock))
    if failed:
        raise ProcessLookupError(failed, os.strerror(failed))
    return clock.value


def resident_bytes(pids: Iterable[int]) -> int:
    """Resident memory; pages shared by parent and child count twice."""
    page = os.sysconf("SC_PAGE_SIZE")
    return sum(int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) for pid in pids) * page


class Process:
    """A server that runs until the end of the `with` block."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        cores: Sequence[int] = (SERVER_CORE,),
    ) -> None:
        self.began = time.perf_counter()
        self._command = command
        self._log = log
        most_descriptors()
        with pinned(*cores), log.open("wb") as errors:
            self._started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **(environment or {})},
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Terminate the server; kill it if it does not end."""
        pids = self.pids() if self._started.poll() is None else []
        self._started.terminate()
        try:
            self._started.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in pids[1:]:
                os.kill(pid, 9)
            self._started.kill()
            self._started.wait()
        assert self._started.stdout
        self._started.stdout.close()

    def check(self) -> None:
        """Raise an error with the log if the server has ended."""
        if self._started.poll() is not None:
            output = self._log.read_text("utf-8", "replace")[-2000:]
            raise ChildProcessError(f"{' '.join(self._command)} ended: {output}")

    def line(self) -> str:
        """The next line of output."""
        assert self._started.stdout
        line = self._started.stdout.readline()
        if not line:
            self._started.wait(_STOP_SECONDS)
            self.check()
        return line

    def pids(self) -> list[int]:
        """The process and its children."""
        pid = self._started.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        words = children.read_text("ascii").split() if children.exists() else []
        return [pid, *map(int, words)]

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._started.send_signal(number)

    def resident(self) -> int:
        """Resident bytes."""
        return resident_bytes(self.pids())
