"""Runs a program as if it were inside a machine, and lets the machine's impacts happen to it.

This is the supervisor: it stays outside the machine's processes, but inside its network. It decides
when the program runs; `first.py` does it, and `link.py` speaks with the service.
"""

import asyncio
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path

from fairwarning.core.errors import NotFound
from fairwarning.machines.process import namespace
from fairwarning.machines.process.init import KILLED, InitProcess
from fairwarning.machines.process.link import ImpactOrder, ServiceLink, check_service

GRACE_SECONDS = 5.0  # between SIGTERM and SIGKILL

_PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_HARMLESS = {signal.SIGUSR1, signal.SIGUSR2}  # they do not end a machine that is down
_FINAL = {"evict", "delete"}
_SAID = {
    "freeze": "is frozen for {seconds:g} s",
    "reboot": "is rebooted",
    "redeploy": "is redeployed, its temporary folder emptied",
    "reimage": "is reimaged, its temporary folder emptied",
    "evict": "is evicted",
    "delete": "is deleted",
    "stop": "is stopped; it waits to be started",
    "deallocate": "is deallocated; it waits to be started",
    "start": "is started",
}
_PROXIES = {"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy"}


@dataclass(frozen=True)
class MachineProgram:
    """What to run, as which machine of which service."""

    machine: str
    command: tuple[str, ...]
    folder: Path  # the service's data
    grace_seconds: float = GRACE_SECONDS
    quiet: bool = False

    @property
    def temporary(self) -> Path:
        """The machine's temporary disk."""
        safe = re.sub(r"[^A-Za-z0-9_-]", "_", self.machine)[:100]
        if safe != self.machine:  # no two machines share one
            safe += "." + sha256(os.fsencode(self.machine)).hexdigest()[:12]
        return self.folder / "machines" / safe / "tmp"

    def environment(self, outside: Mapping[str, str]) -> dict[str, str]:
        """What the program sees of the environment: no proxy leads out of the machine."""
        kept = {name: value for name, value in outside.items() if name.lower() not in _PROXIES}
        return kept | {"FAIRWARNING_MACHINE": self.machine, "TMPDIR": str(self.temporary)}


def run(inside: MachineProgram) -> int:
    """Run the program until it ends, or the machine does; its exit code, as a shell would give it.

    Raises NotFound or Refused when the service does not let it be that machine, Unavailable when
    there is none, and FairwarningError where the system forbids namespaces.
    """
    check_service(inside.folder)
    inside.temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
    front = _in_front()
    namespace.enter()
    # Before there is a loop or a connection that the first process would inherit.
    first = InitProcess(inside.command, inside.environment(os.environ), front=front)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # it speaks while the program has the terminal
    try:
        return asyncio.run(_live(inside, first))
    finally:
        first.kill()
        if front:
            _take_terminal()


async def _live(inside: MachineProgram, first: InitProcess) -> int:
    supervisor = Supervisor(inside, first)
    return await supervisor.live()


class _Phase(Enum):
    RUNNING = 1
    ENDING = 2
    DOWN = 3


class Supervisor:
    """The machine's power switch."""

    def __init__(self, inside: MachineProgram, first: InitProcess) -> None:
        self._inside = inside
        self._first = first
        self._link = ServiceLink(inside.folder, inside.machine, self._attached, self._ordered)
        self._listener: socket.socket | None = None
        self._phase = _Phase.DOWN
        self._begun = False
        self._empty = asyncio.Event()
        self._empty.set()
        self._code = 0  # how the program ended last
        self._orders: asyncio.Queue[ImpactOrder] = asyncio.Queue()
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def live(self) -> int:
        """Until the program ends by itself, or the machine for good; the exit code."""
        self._pass_signals_on()
        asyncio.get_running_loop().add_reader(self._first.channel, self._hear)
        self._raise_endpoint()
        tasks = [asyncio.create_task(self._link.keep()), asyncio.create_task(self._obey())]
        for task in tasks:
            task.add_done_callback(self._fail)
        try:
            return await self._over
        finally:
            asyncio.get_running_loop().remove_reader(self._first.channel)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------------------ impacts

    async def _obey(self) -> None:
        while True:
            order = await self._orders.get()
            self._say(_SAID.get(order.do, "is told what it does not know").format_map(vars(order)))
            error = ""
            try:
                await self._carry_out(order)
            except OSError as failure:
                error = str(failure)
            self._link.done(order.id, error)
            if order.do in _FINAL:
                self._finish(self._code)

    async def _carry_out(self, order: ImpactOrder) -> None:
        match order.do:
            case "freeze":
                await self._freeze(order.seconds)
            case "reboot":
                await self._end()
                self._start()
            case "redeploy" | "reimage":
                await self._end()
                try:
                    _empty_folder(self._inside.temporary)
                finally:
                    self._start()
            case "stop" | "deallocate" | "evict" | "delete":
                await self._end()
            case "start":
                self._start()
            case _:
                raise OSError(f"{order.do} is not known here; update fairwarning")

    async def _freeze(self, seconds: float) -> None:
        self._first.freeze()
        await asyncio.sleep(seconds)
        self._first.thaw()

    async def _end(self) -> None:
        self._phase = _Phase.ENDING
        self._first.signal_all(signal.SIGTERM)
        self._first.signal_all(signal.SIGCONT)  # what was stopped can end, too
        try:
            await asyncio.wait_for(self._empty.wait(), self._inside.grace_seconds)
        except TimeoutError:
            self._first.signal_all(signal.SIGKILL)
            await self._empty.wait()
        await self._lower_endpoint()
        self._phase = _Phase.DOWN

    def _start(self) -> None:
        if self._phase is _Phase.RUNNING:
            return
        self._raise_endpoint()
        self._empty.clear()
        self._first.start()
        self._phase = _Phase.RUNNING

    def _raise_endpoint(self) -> None:
        if self._listener is None:
            self._listener = namespace.open_endpoint()
            self._link.up(self._listener)

    async def _lower_endpoint(self) -> None:
        if self._listener is not None:
            await self._link.down()
            namespace.close_endpoint(self._listener)
            self._listener = None

    # ------------------------------------------------------------- what others tell us

    def _attached(self, host_name: str) -> None:
        if not self._begun:
            self._begun = True
            namespace.name_host(host_name)
            self._start()

    def _ordered(self, order: ImpactOrder) -> None:
        self._orders.put_nowait(order)

    def _hear(self) -> None:
        match self._first.hear():
            case ["ended", code]:
                self._code = int(code)
                if self._phase is _Phase.RUNNING:
                    self._finish(self._code)
            case ["empty"]:
                self._empty.set()
            case ["suspended"]:
                self._suspend()
            case []:
                self._finish(KILLED + signal.SIGKILL)

    def _suspend(self) -> None:
        """The user wants the shell back: stop as the program did, until they want it again."""
        _take_terminal()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._first.resume(front=_in_front())

    def _pass_signals_on(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
                loop.add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: signal.Signals) -> None:
        if self._phase is _Phase.RUNNING:
            self._first.signal_program(number)
        elif number not in _HARMLESS:
            self._finish(KILLED + number)

    # ---------------------------------------------------------------------------- ends

    def _finish(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)

    def _fail(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None or self._over.done():
            return
        if isinstance(error, NotFound) and self._begun:  # it was deleted while we were not heard
            self._ordered(ImpactOrder(id="", do="delete", seconds=0))
        else:
            self._over.set_exception(error)

    def _say(self, text: str) -> None:
        if not self._inside.quiet:
            with suppress(OSError):
                sys.stderr.write(f"fairwarning: {self._inside.machine} {text}\n")
                sys.stderr.flush()


def _empty_folder(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _in_front() -> bool:
    """Whether this process has the terminal, and so may give it away."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _take_terminal() -> None:
    with suppress(OSError):
        os.tcsetpgrp(0, os.getpgrp())
