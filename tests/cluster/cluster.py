"""Several worker processes that can be killed, paused and started again, and what they answered."""

import asyncio
import base64
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from fairwarning.core.commands import Command
from tests.cluster.worker import LINE_BYTES, WorkerSettings
from tests.fixtures.programs import ROOT
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until_async

FAILPOINT_SECONDS = 0.5


class NoAnswer(Exception):
    """No answer came: the request may have taken effect or not."""


class ForkServer:
    """Forks worker processes, which end with it."""

    def __init__(self, *bugs: str) -> None:
        self.bugs = bugs
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.worker", *bugs],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=LIMIT_SECONDS)

    def fork(self, settings: WorkerSettings) -> int:
        """Fork a process and return its pid."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(asdict(settings)) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


class WorkerProcess:
    """A worker process and a connection to it."""

    def __init__(self, settings: WorkerSettings, pid: int) -> None:
        self.settings = settings
        self._pid = pid
        self._handle = os.pidfd_open(pid)  # so that no signal reaches a later process of this pid
        self.killed = False
        self._count = 0
        self._open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._disarming: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The name of the process; a restarted one gets a new name."""
        return self.settings.name

    @property
    def up(self) -> bool:
        """Whether the process answers."""
        return self._reading is not None and not self._reading.done()

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(0))

    async def connect(self) -> None:
        """Wait until the process is ready, and connect; raises `NoAnswer` if it has ended."""
        await wait_until_async(
            lambda: self.settings.socket.exists() or self.ended,
            lambda: f"{self.name} starts: {self.log_tail()}",
        )
        if self.ended:
            raise NoAnswer(self.log_tail())
        reader, self._writer = await asyncio.open_unix_connection(
            self.settings.socket, limit=LINE_BYTES
        )
        self._reading = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                answer = json.loads(line)
                future = self._open.pop(answer["n"])
                if not future.done():  # the caller may have given up
                    future.set_result(answer)
        for future in self._open.values():
            if not future.done():
                future.set_exception(NoAnswer())
        self._open.clear()
        assert self._writer
        self._writer.close()
        expected = self.killed or self.settings.failpoint
        assert expected, f"{self.name} ended by itself: {self.log_tail()}"

    async def request(self, **request: object) -> dict[str, Any]:
        """Send a request and return the answer; raises `NoAnswer` if none will come."""
        if not self.up:
            raise NoAnswer
        assert self._writer
        self._count += 1
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[self._count] = future
        self._writer.write(json.dumps({"n": self._count, **request}).encode() + b"\n")
        async with asyncio.timeout(LIMIT_SECONDS):
            return await future

    async def submit(self, command: Command) -> dict[str, Any]:
        """Submit a command."""
        return await self.request(submit=base64.b64encode(pickle.dumps(command)).decode())

    def log_tail(self) -> str:
        """Return the end of the process's log."""
        return self.settings.log.read_text()[-4000:] if self.settings.log.exists() else ""

    # --- Faults ---

    async def kill(self, failpoint: str = "") -> None:
        """Send SIGKILL; at a failpoint if the process reaches it soon."""
        if self.killed:
            return
        self.killed = True
        await self._signal_at(signal.SIGKILL, failpoint, "ZX")
        await wait_until_async(lambda: self.ended)
        os.close(self._handle)
        if self._reading:
            await self._reading

    async def pause(self, failpoint: str = "") -> None:
        """Send SIGSTOP; at a failpoint if the process reaches it soon."""
        await self._signal_at(signal.SIGSTOP, failpoint, "T")

    async def _signal_at(self, number: signal.Signals, failpoint: str, states: str) -> None:
        if failpoint:
            await self._arm(failpoint, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(FAILPOINT_SECONDS):
                    await wait_until_async(lambda: self._state() in states)
            # If the process reached it later, nothing would resume it.
            self._disarming = asyncio.create_task(self._arm("nowhere", number))
        self._send(number)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    async def _arm(self, failpoint: str, number: signal.Signals) -> None:
        with suppress(NoAnswer):
            await self.request(arm=failpoint, signal=number)

    def _state(self) -> str:
        try:
            stat = Path(f"/proc/{self._pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return "X"
        return stat.rpartition(")")[2].split()[0]

    async def resume(self) -> None:
        """Send SIGCONT, and disarm the failpoint."""
        self._send(signal.SIGCONT)
        while self._disarming:
            done, _ = await asyncio.wait((self._disarming,), timeout=0.01)
            self._send(signal.SIGCONT)  # it may have reached the failpoint before it was disarmed
            if done:
                self._disarming = None


class Cluster:
    """Worker processes by index, each of which may be restarted."""

    def __init__(self, fork_server: ForkServer, settings: WorkerSettings, size: int = 3) -> None:
        self._fork_server = fork_server
        self._settings = settings
        self._starts = 0
        self.all_processes: list[WorkerProcess] = []  # including those that were killed
        self.processes: list[WorkerProcess] = []  # by index
        self._size = size

    async def __aenter__(self) -> Self:
        self.processes = [self._fork() for _ in range(self._size)]
        for process in self.processes:
            await process.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self.all_processes:
            await process.kill()

    def _fork(self) -> WorkerProcess:
        self._starts += 1
        settings = replace(self._settings, name=f"p{self._starts}")
        process = WorkerProcess(settings, self._fork_server.fork(settings))
        self.all_processes.append(process)
        return process

    async def start(self, index: int) -> None:
        """Start a process again that was killed."""
        assert self.processes[index].killed
        self.processes[index] = process = self._fork()
        await process.connect()


# --- The requests of clients and their answers, with process and time -----------------------------


@dataclass(slots=True)
class SubmittedCommand:
    """A command. Its actor is unique, so that the journal shows which lines it caused."""

    command: Command
    process: str
    sent: float
    answered: float = 0.0
    outcome: str = ""  # done, lost (unknown), or the code of a refusal
    status: int = 0  # of a refusal


@dataclass(slots=True)
class Read:
    """A document that was read; `version` is None if there was no such scope."""

    scope: str
    process: str
    sent: float
    answered: float
    version: int | None
    body: str


@dataclass(slots=True)
class History:
    """All requests, in order of sending."""

    commands: list[SubmittedCommand] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    unavailable: int = 0  # reads that were refused

    async def submit(self, process: WorkerProcess, command: Command) -> SubmittedCommand:
        """Submit a command and record the outcome."""
        entry = SubmittedCommand(command, process.name, time.time())
        self.commands.append(entry)
        try:
            answer = await process.submit(command)
        except NoAnswer:
            entry.outcome = "lost"
            return entry
        entry.answered = time.time()
        entry.outcome = answer.get("refused", "done")
        if entry.outcome == "StoreUnclear":
            entry.outcome = "lost"
        entry.status = answer.get("status", 0)
        return entry

    async def poll(self, process: WorkerProcess, scope: str) -> Read | None:
        """Read a document; None if there was no answer or a refusal."""
        sent = time.time()
        try:
            answer: Mapping[str, Any] = await process.request(poll=scope)
        except NoAnswer:
            return None
        if "refused" in answer:
            self.unavailable += 1
            return None
        read = Read(
            scope, process.name, sent, time.time(), answer["version"], answer.get("body", "")
        )
        self.reads.append(read)
        return read
