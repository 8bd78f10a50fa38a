"""`up --workers N`: N equal processes on the same ports of one host (X1).

The system shares callers out among them (SO_REUSEPORT); what they know of each other is in the
database. One that dies is started again; when this process ends, however it ends, so do they.
"""

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import monotonic

from fairwarning.core.errors import Unavailable
from fairwarning.metadata.listeners import open_tcp
from fairwarning.server import data_folder
from fairwarning.server.wiring import Address, ServerOptions

log = logging.getLogger(__name__)

_VARIABLE = "FAIRWARNING_WORKER"
_KEY_BYTES = 16
_READY = b"ready\n"
_PAUSES_SECONDS = 0.5, 10.0  # before one that died is started again: at first, and at most
_STEADY_SECONDS = 60.0  # after which a death is a new one
_PIECE = 1 << 16


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker is told by the process that starts it."""

    ports: tuple[int, int, int]
    key: str
    ready: int  # a pipe to say so in
    life: int  # a pipe that ends when whoever started it is gone
    tells: bool  # whether it is the one that speaks to people

    def options(self, given: ServerOptions) -> ServerOptions:
        """The same as everybody's, but for the ports: those are chosen once for all."""
        return replace(
            given,
            metadata=(given.metadata[0], self.ports[0]),
            console=(given.console[0], self.ports[1]),
            arm=(given.arm[0], self.ports[2]),
            key=self.key,
            worker=True,
        )

    def say_ready(self) -> None:
        """It serves from now on."""
        os.write(self.ready, _READY)
        os.close(self.ready)

    def at_the_end(self, stop: Callable[[], None]) -> None:
        """Stop when whoever started it is gone."""
        asyncio.get_running_loop().add_reader(self.life, stop)


def this_worker() -> WorkerOptions | None:
    """What this process was told, if it is a worker."""
    told = os.environ.pop(_VARIABLE, None)
    if told is None:
        return None
    given = json.loads(told)
    return WorkerOptions(**given | {"ports": tuple(given["ports"])})


async def run(options: ServerOptions, count: int) -> bool:
    """Keep so many going until a signal says stop; whether all of them ended well."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(data_folder.lock(options.data, memory=False))
        ports = tuple(stack.enter_context(_reserved(options)))
        life, ours = os.pipe()
        stack.callback(os.close, life)
        stack.callback(os.close, ours)
        team = _WorkerPool(ports, life)
        loop = asyncio.get_running_loop()
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, team.stop)
        try:
            await team.begin(count)
            return await team.keep()
        finally:
            await team.end()


@contextlib.contextmanager
def _reserved(options: ServerOptions) -> Iterator[list[int]]:
    """Ports that are ours, so that 0 means the same to all workers."""
    wanted: list[tuple[Address, bool]] = [
        (options.metadata, False), (options.console, True), (options.arm, True),
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(open_tcp(*address, exact=exact, shared=True, listening=False))
            for address, exact in wanted
        ]
        yield [one.getsockname()[1] for one in sockets]


class _WorkerPool:
    """The workers of one host."""

    def __init__(self, ports: tuple[int, ...], life: int) -> None:
        self._ports = ports
        self._life = life
        self._key = secrets.token_urlsafe(_KEY_BYTES)
        self._stopping = asyncio.Event()
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._keepers: list[asyncio.Task[int]] = []
        self._speech: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """All of them."""
        self._stopping.set()
        for process in self._processes.values():
            if process.returncode is None:
                process.terminate()

    async def begin(self, count: int) -> None:
        """The first by itself, since it may have to make the fleet; then the others."""
        await self._start(0, tells=True)
        await asyncio.gather(*(self._start(number) for number in range(1, count)))
        speaker = self._processes[0].stdout
        assert speaker is not None
        self._speech = asyncio.create_task(_pass_on(speaker))
        self._keepers = [asyncio.create_task(self._keep(number)) for number in range(count)]

    async def keep(self) -> bool:
        """Until they are stopped; whether all of them ended well."""
        codes = await asyncio.gather(*self._keepers)
        if self._speech:
            await self._speech
        return not any(codes)

    async def end(self) -> None:
        """Leave nobody behind."""
        self.stop()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for process in self._processes.values():
            await process.wait()

    async def _start(self, number: int, *, tells: bool = False) -> None:
        """Returns once it serves; raises if it does not come to that."""
        hearing, saying = os.pipe()
        told = {
            "ports": self._ports, "key": self._key, "ready": saying, "life": self._life,
            "tells": tells,
        }  # fmt: skip
        try:
            process = self._processes[number] = await asyncio.create_subprocess_exec(
                sys.executable, *sys.argv,
                env=os.environ | {_VARIABLE: json.dumps(told)},
                pass_fds=(saying, self._life),
                stdout=asyncio.subprocess.PIPE if tells else asyncio.subprocess.DEVNULL,
            )  # fmt: skip
        finally:
            os.close(saying)
        if self._stopping.is_set():
            process.terminate()
        said = await asyncio.to_thread(_read_all, hearing)
        if said != _READY:
            code = await process.wait()
            if self._stopping.is_set():
                return
            raise Unavailable("WorkerFailed", f"worker {number} did not start (exit code {code})")

    async def _keep(self, number: int) -> int:
        pause, most = _PAUSES_SECONDS
        while True:
            begun = monotonic()
            code = await self._processes[number].wait()
            if self._stopping.is_set():
                return 0 if code == -signal.SIGTERM else code  # it may not even have begun
            log.error("worker %d ended with %d; it is started again", number, code)
            pause = _PAUSES_SECONDS[0] if monotonic() - begun > _STEADY_SECONDS else pause
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
                return 0
            pause = min(pause * 2, most)
            with contextlib.suppress(Unavailable):
                await self._start(number)


def _read_all(hearing: int) -> bytes:
    with os.fdopen(hearing, "rb") as pipe:
        return pipe.read()


async def _pass_on(speaker: asyncio.StreamReader) -> None:
    """What the first worker says."""
    while piece := await speaker.read(_PIECE):
        await asyncio.to_thread(_say, piece)


def _say(piece: bytes) -> None:
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
