"""Several worker processes that can be killed, paused and started again, and lines to them."""

import asyncio
import base64
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fairwarning.core.commands import Command
from tests.cluster.worker import LINE_BYTES, Setting
from tests.fixtures.programs import ROOT

PATIENCE_SECONDS = 30.0
SOON_SECONDS = 0.5


class Lost(Exception):
    """No answer came: what was asked may have been done, or not."""


class Nursery:
    """Where processes come from, and without which they end."""

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=PATIENCE_SECONDS)

    def fork(self, setting: Setting) -> int:
        """A new process; its number."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(asdict(setting)) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


class Life:
    """One life of a process, and a line to it."""

    def __init__(self, setting: Setting, number: int) -> None:
        self.setting = setting
        self._number = number
        self._handle = os.pidfd_open(number)  # whoever gets its number next is safe from us
        self.killed = False
        self._count = 0
        self._open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._disarming: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """Which life of which process."""
        return self.setting.name

    @property
    def up(self) -> bool:
        """Whether it can be asked."""
        return self._reading is not None and not self._reading.done()

    async def connect(self) -> None:
        """Wait until it is ready."""
        await until(self.setting.socket.exists, f"{self.name} does not start", self.said)
        reader, self._writer = await asyncio.open_unix_connection(
            self.setting.socket, limit=LINE_BYTES
        )
        self._reading = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                answer = json.loads(line)
                future = self._open.pop(answer["n"])
                if not future.done():  # else nobody waits any more
                    future.set_result(answer)
        for future in self._open.values():
            if not future.done():
                future.set_exception(Lost())
        self._open.clear()
        assert self._writer
        self._writer.close()
        assert self.killed, f"{self.name} died by itself: {self.said()}"

    async def ask(self, **request: object) -> dict[str, Any]:
        """Ask and wait; `Lost` when no answer is going to come."""
        if not self.up:
            raise Lost
        assert self._writer
        self._count += 1
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[self._count] = future
        self._writer.write(json.dumps({"n": self._count, **request}).encode() + b"\n")
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await future

    async def submit(self, command: Command) -> dict[str, Any]:
        """Ask for a command."""
        return await self.ask(submit=base64.b64encode(pickle.dumps(command)).decode())

    def said(self) -> str:
        """The end of its log."""
        return self.setting.log.read_text()[-4000:] if self.setting.log.exists() else ""

    # --- What may happen to it ---

    async def kill(self, where: str = "") -> None:
        """As kill -9 does; at a failpoint if it gets there soon."""
        if self.killed:
            return
        self.killed = True
        await self._strike(signal.SIGKILL, where, "ZX")
        os.close(self._handle)
        if self._reading:
            await self._reading

    async def pause(self, where: str = "") -> None:
        """It stands still, and does not know; at a failpoint if it gets there soon."""
        await self._strike(signal.SIGSTOP, where, "T")

    async def _strike(self, number: signal.Signals, where: str, states: str) -> None:
        if where:
            await self._arm(where, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(SOON_SECONDS):
                    await until(lambda: self._state() in states, "it does not get there")
            # Should it get there later, nobody would wake it.
            self._disarming = asyncio.create_task(self._arm("nowhere", number))
        self._send(number)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    async def _arm(self, where: str, number: signal.Signals) -> None:
        with suppress(Lost):
            await self.ask(arm=where, signal=number)

    def _state(self) -> str:
        try:
            stat = Path(f"/proc/{self._number}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return "X"
        return stat.rpartition(")")[2].split()[0]

    async def go_on(self) -> None:
        """It runs again, and knows of no failpoint any more."""
        self._send(signal.SIGCONT)
        while self._disarming:
            done, _ = await asyncio.wait((self._disarming,), timeout=0.01)
            self._send(signal.SIGCONT)  # it may have got there before it was told
            if done:
                self._disarming = None


class Cluster:
    """Processes by number, each of which may live several times."""

    def __init__(self, nursery: Nursery, setting: Setting, size: int = 3) -> None:
        self._nursery = nursery
        self._setting = setting
        self._births = 0
        self.lives: list[Life] = []  # all that ever were
        self.present: list[Life] = []  # by number
        self._size = size

    async def __aenter__(self) -> Self:
        self.present = [self._born() for _ in range(self._size)]
        for life in self.present:
            await life.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for life in self.lives:
            await life.kill()

    def _born(self) -> Life:
        self._births += 1
        setting = replace(self._setting, name=f"p{self._births}")
        life = Life(setting, self._nursery.fork(setting))
        self.lives.append(life)
        return life

    async def start(self, number: int) -> None:
        """A process that was killed lives again."""
        assert self.present[number].killed
        self.present[number] = life = self._born()
        await life.connect()


async def until(
    holds: Callable[[], object], complaint: str, details: Callable[[], str] = str
) -> None:
    """Wait for something that must come."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < give_up, f"{complaint} {details()}"
        await asyncio.sleep(0.005)
