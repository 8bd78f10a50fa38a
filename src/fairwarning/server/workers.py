"""`up --workers N`: N equal processes on the same ports of one host (X1).

The kernel distributes connections among them (SO_REUSEPORT); they share state only through the
database. A worker that dies is restarted. When this process ends, for any reason, the workers end.
"""

import asyncio
import contextlib
import functools
import json
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic

from fairwarning.core.errors import Unavailable
from fairwarning.metadata.listeners import open_tcp
from fairwarning.server import data_folder, variables
from fairwarning.server.options import ServerOptions
from fairwarning.server.output import Output
from fairwarning.server.reach import ReachWay, choose_way
from fairwarning.server.stopping import STOP_SECONDS, StopSignal

log = logging.getLogger(__name__)

_VARIABLE = "FAIRWARNING_WORKER"
_KEY_BYTES = 16
_READY = b"ready\n"
_BACKOFF_SECONDS = 0.5, 10.0  # first and longest pause before a worker is restarted
_STABLE_SECONDS = 60.0  # a worker that ran this long restarts with the first pause
_STOP_SECONDS = STOP_SECONDS + 0.5  # a worker that does not stop ends itself before
_STOPPED = 0, -signal.SIGTERM, -signal.SIGINT  # a signal may arrive before the worker handles it
_OUTPUT_SECONDS = 0.5  # for the last output of the workers; nobody may read it
_PIECE = 1 << 16


@dataclass(frozen=True)
class WorkerOptions:
    """What the parent process passes to a worker."""

    ports: tuple[int, int, int]
    key: str
    ready: int  # pipe on which the worker reports that it serves
    parent: int  # pipe that closes when the parent ends
    first: bool  # whether this worker writes up.json
    prints: bool  # whether this worker prints the addresses on stdout

    def options(self, base: ServerOptions) -> ServerOptions:
        """Return the options with the ports and the key that all workers share."""
        return replace(
            base,
            metadata=(base.metadata[0], self.ports[0]),
            console=(base.console[0], self.ports[1]),
            arm=(base.arm[0], self.ports[2]),
            key=self.key,
            worker=True,
        )

    def report_ready(self) -> None:
        """Tell the parent that this worker serves."""
        os.write(self.ready, _READY)
        os.close(self.ready)

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
    return WorkerOptions(**values | {"ports": tuple(values["ports"])})


async def run(options: ServerOptions, count: int) -> bool:
    """Run `count` workers until a signal arrives; return whether all of them stopped in order."""
    stop = StopSignal(_STOP_SECONDS)
    with contextlib.ExitStack() as stack:
        lock = data_folder.lock(options.data, memory=False)
        stop.leftovers.append(stack.enter_context(lock))
        ports = tuple(stack.enter_context(_reserve_ports(options)))
        read_end, write_end = os.pipe()
        stack.callback(os.close, read_end)
        stack.callback(os.close, write_end)
        pool = _WorkerPool(ports, read_end, options.database)
        stop.leftovers.insert(0, pool.kill)
        try:
            await pool.start(count)
            await stop.wait()
        except asyncio.CancelledError:
            if not stop.requested:
                raise
        finally:
            await pool.close()
    stop.finish()
    return pool.stopped_in_order


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
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._supervisors: list[asyncio.Task[None]] = []
        self._forwarding: asyncio.Task[None] | None = None

    @property
    def stopped_in_order(self) -> bool:
        """Whether all workers that were started have stopped as they were told to."""
        return all(process.returncode in _STOPPED for process in self._processes.values())

    def kill(self) -> None:
        """Kill all workers; this process is about to end."""
        for process in tuple(self._processes.values()):
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

    async def start(self, count: int) -> None:
        """Start the first worker alone, because it may create the fleet; then the others."""
        await self._start(0, prints=True)
        await asyncio.gather(*(self._start(number) for number in range(1, count)))
        stdout = self._processes[0].stdout
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
        for process in self._processes.values():
            if process.returncode is None:
                process.terminate()
        for process in self._processes.values():
            await process.wait()
        if self._forwarding:
            await asyncio.wait([self._forwarding], timeout=_OUTPUT_SECONDS)

    async def _start(self, number: int, *, prints: bool = False) -> None:
        """Start a worker and wait until it serves; raise `Unavailable` if it ends before."""
        read_end, write_end = os.pipe()
        values = {
            "ports": self._ports, "key": self._key, "ready": write_end, "parent": self._parent,
            "first": number == 0, "prints": prints,
        }  # fmt: skip
        try:
            process = self._processes[number] = await asyncio.create_subprocess_exec(
                sys.executable, *_without_data(sys.argv),
                env=os.environ | {_VARIABLE: json.dumps(values), variables.DATA: self._url},
                pass_fds=(write_end, self._parent),
                stdout=asyncio.subprocess.PIPE if prints else asyncio.subprocess.DEVNULL,
            )  # fmt: skip
        finally:
            os.close(write_end)
        message = await asyncio.to_thread(_read_all, read_end)
        if message != _READY:
            code = await process.wait()
            raise Unavailable("WorkerFailed", f"worker {number} did not start (exit code {code})")

    async def _supervise(self, number: int) -> None:
        pause, longest = _BACKOFF_SECONDS
        while True:
            started = monotonic()
            code = await self._processes[number].wait()
            log.error("worker %d exited with code %d; restarting it", number, code)
            pause = _BACKOFF_SECONDS[0] if monotonic() - started > _STABLE_SECONDS else pause
            del self._processes[number]  # it has ended, and not because it was told to
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)
            with contextlib.suppress(Unavailable):
                await self._start(number)


def _without_data(words: Sequence[str]) -> Iterator[str]:
    """Yield a command line without `--data`: every user of the host can read that of a worker."""
    rest = iter(words)
    for word in rest:
        if word == "--data":
            next(rest, None)
        elif not word.startswith("--data="):
            yield word


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as pipe:
        return pipe.read()


async def _forward(output: asyncio.StreamReader) -> None:
    """Copy the output of the first worker to stdout."""
    stdout = Output()
    while piece := await output.read(_PIECE):
        await stdout.write(piece)
