"""`up --workers N`: N equal processes on the same ports of one host (X1).

The kernel distributes connections among them (SO_REUSEPORT); they share state only through the
database. A worker that ends, or reports no progress, is restarted. When this process ends, for any
reason, the workers end.
"""

import asyncio
import contextlib
import functools
import logging
import os
import secrets
import signal
from collections.abc import Iterator
from time import monotonic
from typing import IO

from fairwarning.core.errors import Unavailable
from fairwarning.metadata.listeners import open_tcp
from fairwarning.server import data_folder
from fairwarning.server.options import ServerOptions
from fairwarning.server.output import Output
from fairwarning.server.progress import ServiceManager
from fairwarning.server.reach import ReachWay, choose_way
from fairwarning.server.stopping import StopSignal
from fairwarning.server.worker import STOP_SECONDS, WorkerProcess, open_reader

log = logging.getLogger(__name__)

_KEY_BYTES = 16
_BACKOFF_SECONDS = 0.5, 10.0  # first and longest pause before a worker is restarted
_STABLE_SECONDS = 60.0  # a worker that ran this long restarts with the first pause
_OUTPUT_SECONDS = 0.5  # for the last output of the workers; nobody may read it
_PIECE = 1 << 16
_STOPPED = 0, -signal.SIGTERM, -signal.SIGINT  # a signal may arrive before the worker handles it


async def run(options: ServerOptions, count: int) -> bool:
    """Run `count` workers until a signal arrives; return whether all of them stopped in order."""
    stop = StopSignal(STOP_SECONDS)
    manager = ServiceManager()
    with contextlib.ExitStack() as stack:
        lock = data_folder.lock(options.data, memory=False)
        stop.leftovers.append(stack.enter_context(lock))
        ports = tuple(stack.enter_context(_reserve_ports(options)))
        read_end, write_end = os.pipe()
        stack.callback(os.close, read_end)
        stack.callback(os.close, write_end)
        pool = _WorkerPool(ports, read_end, options.database)
        stop.leftovers.insert(0, pool.kill)
        stack.callback(asyncio.create_task(_report(manager, pool)).cancel)
        try:
            await pool.start(count)
            manager.report_ready()
            await stop.wait()
            manager.report_stop()
        except asyncio.CancelledError:
            if not stop.requested:
                raise
        finally:
            await pool.close()
    stop.finish()
    return pool.stopped_in_order


async def _report(manager: ServiceManager, pool: "_WorkerPool") -> None:
    """Report to the service manager while every worker makes progress or is being restarted."""
    while True:
        await asyncio.sleep(manager.period_seconds)
        if not pool.started:
            manager.report_start("the workers")
        elif pool.progresses:
            manager.report_progress()


@contextlib.contextmanager
def _reserve_ports(options: ServerOptions) -> Iterator[list[int]]:
    """Bind the ports here, so that port 0 becomes the same port for all workers."""
    host, port = options.metadata
    single = choose_way(host, options.machine_ports) is not ReachWay.ADDRESS
    reserve = functools.partial(open_tcp, shared=True, listening=False)
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(reserve(host, port, single=single)),
            *(
                stack.enter_context(reserve(*other, exact=True))
                for other in (options.console, options.arm)
            ),
        ]
        yield [bound.getsockname()[1] for bound in sockets]


class _WorkerPool:
    """The workers of one host."""

    def __init__(self, ports: tuple[int, ...], parent: int, url: str) -> None:
        self._ports = ports
        self._url = url
        self._parent = parent
        self._key = secrets.token_urlsafe(_KEY_BYTES)
        self._workers: dict[int, WorkerProcess] = {}  # without those that are about to be restarted
        self._supervisors: list[asyncio.Task[None]] = []
        self._forwarding: asyncio.Task[None] | None = None

    @property
    def started(self) -> bool:
        """Whether all workers have served."""
        return bool(self._supervisors)

    @property
    def progresses(self) -> bool:
        """Whether every worker has reported progress in time, or is about to be restarted."""
        supervised = not any(supervisor.done() for supervisor in self._supervisors)
        return supervised and all(worker.progresses for worker in self._workers.values())

    @property
    def stopped_in_order(self) -> bool:
        """Whether all workers that were started have stopped as they were told to."""
        return all(worker.process.returncode in _STOPPED for worker in self._workers.values())

    def kill(self) -> None:
        """Kill all workers; this process is about to end."""
        for worker in tuple(self._workers.values()):
            worker.process.kill()

    async def start(self, count: int) -> None:
        """Start the first worker alone, because it may create the fleet; then the others."""
        await self._start(0, prints=True)
        await asyncio.gather(*(self._start(number) for number in range(1, count)))
        stdout = self._workers[0].process.stdout
        assert stdout is not None
        self._forwarding = asyncio.create_task(_forward(stdout))
        self._supervisors = [
            asyncio.create_task(self._supervise(number)) for number in range(count)
        ]

    async def close(self) -> None:
        """Stop all workers and wait for them."""
        for supervisor in self._supervisors:
            supervisor.cancel()
        await asyncio.gather(*self._supervisors, return_exceptions=True)
        for worker in self._workers.values():
            worker.process.terminate()
        await asyncio.gather(*(worker.end() for worker in self._workers.values()))
        if self._forwarding:
            await asyncio.wait([self._forwarding], timeout=_OUTPUT_SECONDS)

    async def _supervise(self, number: int) -> None:
        """Restart a worker whenever it ends, for as long as this process runs."""
        pause, longest = _BACKOFF_SECONDS
        while True:
            started = monotonic()
            code = await self._workers[number].wait()
            log.error("worker %d exited with code %s; restarting it", number, code)
            pause = _BACKOFF_SECONDS[0] if monotonic() - started > _STABLE_SECONDS else pause
            del self._workers[number]  # it has ended, and not because it was told to
            while number not in self._workers:
                await asyncio.sleep(pause)
                pause = min(pause * 2, longest)
                try:
                    await self._start(number)
                except Unavailable as error:
                    log.warning("%s; trying again in %g s", error.message, pause)
                except Exception:
                    log.exception("cannot start worker %d; trying again in %g s", number, pause)

    async def _start(self, number: int, *, prints: bool = False) -> None:
        """Start a worker and wait until it serves; raise `Unavailable` if it does not."""
        values = {"ports": self._ports, "key": self._key, "parent": self._parent}
        values |= {"first": number == 0, "prints": prints}
        try:
            worker = self._workers[number] = await WorkerProcess.start(number, values, self._url)
        except OSError as error:
            text = f"cannot start worker {number}: {error.strerror}"
            raise Unavailable("WorkerFailed", text) from error
        try:
            await worker.wait_until_ready()
        except Unavailable:
            del self._workers[number]
            raise


async def _forward(output: IO[bytes]) -> None:
    """Copy the output of the first worker to stdout."""
    stdout = Output()
    reader, _ = await open_reader(output)
    while piece := await reader.read(_PIECE):
        await stdout.write(piece)
