"""One worker of `up --workers N`: what its parent passes to it, and what it reports back."""

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import IO, Any, Self

from fairwarning.core.errors import Unavailable
from fairwarning.core.record import changed, short_record
from fairwarning.server import stopping, variables
from fairwarning.server.options import ServerOptions
from fairwarning.server.progress import PERIOD_SECONDS

log = logging.getLogger(__name__)

SILENT_SECONDS = 6 * PERIOD_SECONDS  # after which a worker that reports nothing is restarted
FIRST_SECONDS = 300.0  # for its first report: on a busy host, the imports alone may take a minute
STOP_SECONDS = stopping.STOP_SECONDS + 0.5  # a worker that does not stop ends itself before
_VARIABLE = "FAIRWARNING_WORKER"
_PROGRESS, _READY = b".", b"r"  # what a worker reports
_LOOK_SECONDS = 0.02  # between two looks at a process that is about to end
_PIECE = 1 << 16


@short_record
class WorkerOptions:
    """What the parent process passes to a worker."""

    ports: tuple[int, int, int]
    key: str
    reports: int  # pipe on which the worker reports its progress
    parent: int  # pipe that closes when the parent ends
    first: bool  # whether this worker writes up.json
    prints: bool  # whether this worker prints the addresses on stdout
    period_seconds: float = PERIOD_SECONDS  # between two reports

    def options(self, base: ServerOptions) -> ServerOptions:
        """Return the options with the ports and the key that all workers share."""
        return changed(
            base,
            metadata=(base.metadata[0], self.ports[0]),
            console=(base.console[0], self.ports[1]),
            arm=(base.arm[0], self.ports[2]),
            key=self.key,
            worker=True,
        )

    def report_start(self, waiting_for: str) -> None:  # noqa: ARG002  (the worker logs it)
        """Report that the worker has not given its start up."""
        self._report(_PROGRESS)

    def report_ready(self) -> None:
        """Report that this worker serves."""
        self._report(_READY)

    def report_progress(self) -> None:
        """Report that this worker makes progress."""
        self._report(_PROGRESS)

    def report_stop(self) -> None:
        """Report nothing: the parent stops this worker, or has ended."""

    def _report(self, report: bytes) -> None:
        with contextlib.suppress(OSError):  # the parent is busy, or has ended
            os.write(self.reports, report)

    def stop_with_parent(self, stop: Callable[[], None]) -> None:
        """Call `stop` when the parent ends."""
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(self.parent)
            stop()

        loop.add_reader(self.parent, ended)


def this_worker() -> WorkerOptions | None:
    """Return the worker options of this process; None if it is not a worker."""
    text = os.environ.pop(_VARIABLE, None)
    if text is None:
        return None
    values = json.loads(text)
    worker = WorkerOptions(**values | {"ports": tuple(values["ports"])})
    os.set_blocking(worker.reports, False)
    return worker


class WorkerProcess:
    """A worker process, and the pipe on which it reports."""

    def __init__(
        self,
        number: int,
        process: subprocess.Popen[bytes],
        reports: asyncio.StreamReader,
        pipe: asyncio.ReadTransport,
    ) -> None:
        self.process = process
        self._reported_at = monotonic()
        self._limit_seconds = FIRST_SECONDS
        self._number = number
        self._reports = reports
        self._pipe = pipe

    @classmethod
    async def start(cls, number: int, values: Mapping[str, object], url: str) -> Self:
        """Start a process with these values of its `WorkerOptions`; raises `OSError`."""
        read_end, write_end = os.pipe()
        try:
            reports, pipe = await open_reader(os.fdopen(read_end, "rb", 0))
            process = _run_program({**values, "reports": write_end}, url)
        finally:
            os.close(write_end)
        return cls(number, process, reports, pipe)

    @property
    def progresses(self) -> bool:
        """Whether it has reported progress in time."""
        return monotonic() - self._reported_at < self._limit_seconds

    async def wait_until_ready(self) -> None:
        """Wait until it serves; raise `Unavailable` if it ends before."""
        while _READY not in (reports := await self._next_reports()):
            if not reports:
                code = await self.end()
                if self.process.stdout:
                    self.process.stdout.close()
                text = f"worker {self._number} did not start (exit code {code})"
                raise Unavailable("WorkerFailed", text)

    async def wait(self) -> int | None:
        """Wait until it ends or reports nothing for too long; return its exit code."""
        while await self._next_reports():
            pass
        return await self.end()

    async def end(self) -> int | None:
        """Wait for a process that is about to end, and kill it if it goes on (IB6).

        Return its exit code; None if not even that ends it.
        """
        for _ in range(2):
            deadline = monotonic() + STOP_SECONDS
            while self.process.poll() is None and monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_SECONDS)
            self.process.kill()
        self._pipe.close()
        return self.process.returncode

    async def _next_reports(self) -> bytes:
        """Return its next reports; none if it has ended, or was killed for its silence."""
        for _ in range(2):  # if this process was suspended, reports wait in the pipe
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limit_seconds / 2):
                    reports = await self._reports.read(_PIECE)
                    self._reported_at, self._limit_seconds = monotonic(), SILENT_SECONDS
                    return reports
        text = "worker %d has reported no progress for %g s; killing it"
        log.error(text, self._number, self._limit_seconds)
        self.process.kill()
        return b""


def _run_program(values: Mapping[str, Any], url: str) -> subprocess.Popen[bytes]:
    """Run the command of this process as a worker; its output is of interest the first time."""
    return subprocess.Popen(  # noqa: S603  (our own interpreter and command)
        [sys.executable, *_without_data(sys.argv)],
        env=os.environ | {_VARIABLE: json.dumps(values), variables.DATA: url},
        pass_fds=(values["reports"], values["parent"]),
        stdout=subprocess.PIPE if values["prints"] else subprocess.DEVNULL,
    )


async def open_reader(pipe: IO[bytes]) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """Read from a pipe without blocking."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    return reader, transport


def _without_data(words: Sequence[str]) -> Iterator[str]:
    """Yield a command line without `--data`: every user of the host can read that of a worker."""
    rest = iter(words)
    for word in rest:
        if word == "--data":
            next(rest, None)
        elif not word.startswith("--data="):
            yield word
