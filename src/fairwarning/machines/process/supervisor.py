"""The supervisor: runs a program as if inside a machine, and executes the machine's impacts on it.

It stays outside the machine's PID namespace but inside its network namespace. It decides when the
program runs; `init.py` starts and signals it, and `link.py` talks to the service.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from fairwarning.core.errors import NotFound
from fairwarning.machines.process import namespace
from fairwarning.machines.process.init import KILLED, InitProcess
from fairwarning.machines.process.link import ImpactOrder, ServiceLink, check_service
from fairwarning.machines.process.temporary import TemporaryDisk

GRACE_SECONDS = 5.0  # between SIGTERM and SIGKILL

_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_HARMLESS = {signal.SIGUSR1, signal.SIGUSR2}  # they do not end a machine that is down
_FINAL = {"evict", "delete"}
_MESSAGES = {
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
    """A command, the machine to run it as, and the service's data folder."""

    machine: str
    command: tuple[str, ...]
    folder: Path  # the service's data
    grace_seconds: float = GRACE_SECONDS
    quiet: bool = False

    @property
    def temporary(self) -> TemporaryDisk:
        """The machine's temporary disk."""
        return TemporaryDisk(self.folder, self.machine)

    def environment(self, outside: Mapping[str, str]) -> dict[str, str]:
        """Return the program's environment, without proxies, which the machine cannot reach."""
        kept = {name: value for name, value in outside.items() if name.lower() not in _PROXIES}
        return kept | {"FAIRWARNING_MACHINE": self.machine, "TMPDIR": str(self.temporary.path)}


def run(program: MachineProgram) -> int:
    """Run the program until it or the machine ends; return its exit code, as a shell would.

    Raises NotFound or Refused when the service does not accept it as that machine, Unavailable when
    no service is running, and FairwarningError when the system forbids namespaces.
    """
    check_service(program.folder)
    program.temporary.make()
    foreground = _in_foreground()
    namespace.enter()
    # Fork before a loop or a connection exists that the init process would inherit.
    init = InitProcess(program.command, program.environment(os.environ), foreground=foreground)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # to write while the program has the terminal
    try:
        return asyncio.run(_run(program, init))
    finally:
        init.kill()
        if foreground:
            _take_terminal()


async def _run(program: MachineProgram, init: InitProcess) -> int:
    supervisor = Supervisor(program, init)
    return await supervisor.run()


class _Phase(Enum):
    RUNNING = 1
    ENDING = 2
    DOWN = 3


class Supervisor:
    """Starts, stops and freezes a machine's program as the service orders."""

    def __init__(self, program: MachineProgram, init: InitProcess) -> None:
        self._program = program
        self._init = init
        self._link = ServiceLink(program.folder, program.machine, self._attached, self._enqueue)
        self._listener: socket.socket | None = None
        self._phase = _Phase.DOWN
        self._started = False
        self._empty = asyncio.Event()
        self._empty.set()
        self._code = 0  # exit code of the last run of the program
        self._orders: asyncio.Queue[ImpactOrder] = asyncio.Queue()
        self._exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> int:
        """Run until the program ends by itself or the machine is removed; return the exit code."""
        self._forward_signals()
        asyncio.get_running_loop().add_reader(self._init.channel, self._receive)
        self._open_endpoint()
        tasks = [asyncio.create_task(self._link.run()), asyncio.create_task(self._execute_orders())]
        for task in tasks:
            task.add_done_callback(self._fail)
        try:
            return await self._exit_code
        finally:
            asyncio.get_running_loop().remove_reader(self._init.channel)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------------------ impacts

    async def _execute_orders(self) -> None:
        while True:
            order = await self._orders.get()
            self._report(_MESSAGES.get(order.kind, "got an unknown impact").format_map(vars(order)))
            error = ""
            try:
                await self._execute(order)
            except OSError as failure:
                error = str(failure)
            self._link.done(order.id, error)
            if order.kind in _FINAL:
                self._finish(self._code)

    async def _execute(self, order: ImpactOrder) -> None:
        match order.kind:
            case "freeze":
                await self._freeze(order.seconds)
            case "reboot":
                await self._stop()
                self._boot(self._program.temporary.make)
            case "redeploy" | "reimage":
                await self._stop()
                self._boot(self._program.temporary.empty)
            case "stop" | "deallocate" | "evict" | "delete":
                await self._stop()
            case "start":
                self._boot(self._program.temporary.make)
            case _:
                raise OSError(f"unknown impact {order.kind}; update fairwarning")

    async def _freeze(self, seconds: float) -> None:
        self._init.freeze()
        await asyncio.sleep(seconds)
        self._init.thaw()

    async def _stop(self) -> None:
        self._phase = _Phase.ENDING
        self._init.signal_all(signal.SIGTERM)
        self._init.signal_all(signal.SIGCONT)  # so that stopped processes can end, too
        try:
            await asyncio.wait_for(self._empty.wait(), self._program.grace_seconds)
        except TimeoutError:
            self._init.signal_all(signal.SIGKILL)
            await self._empty.wait()
        await self._close_endpoint()
        self._phase = _Phase.DOWN

    def _boot(self, prepare: Callable[[], None]) -> None:
        """Prepare the temporary disk and start the program, even without the disk."""
        try:
            prepare()
        finally:
            self._start()

    def _start(self) -> None:
        if self._phase is _Phase.RUNNING:
            return
        self._open_endpoint()
        self._empty.clear()
        self._init.start()
        self._phase = _Phase.RUNNING

    def _open_endpoint(self) -> None:
        if self._listener is None:
            self._listener = namespace.open_endpoint()
            self._link.endpoint_up(self._listener)

    async def _close_endpoint(self) -> None:
        if self._listener is not None:
            await self._link.endpoint_down()
            namespace.close_endpoint(self._listener)
            self._listener = None

    # -------------------------------------------- events from the service, init and signals

    def _attached(self, host_name: str) -> None:
        if not self._started:
            self._started = True
            namespace.name_host(host_name)
            self._start()

    def _enqueue(self, order: ImpactOrder) -> None:
        self._orders.put_nowait(order)

    def _receive(self) -> None:
        match self._init.receive():
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
        """Stop as the program did, so that the user gets the shell, until the user resumes us."""
        _take_terminal()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._init.resume(foreground=_in_foreground())

    def _forward_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as set by nohup
                loop.add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: signal.Signals) -> None:
        if self._phase is _Phase.RUNNING:
            self._init.signal_program(number)
        elif number not in _HARMLESS:
            self._finish(KILLED + number)

    # ---------------------------------------------------------------------------- ends

    def _finish(self, code: int) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(code)

    def _fail(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None or self._exit_code.done():
            return
        if isinstance(error, NotFound) and self._started:  # deleted while we were disconnected
            self._enqueue(ImpactOrder(id="", kind="delete", seconds=0))
        else:
            self._exit_code.set_exception(error)

    def _report(self, text: str) -> None:
        if not self._program.quiet:
            with suppress(OSError):
                sys.stderr.write(f"fairwarning: {self._program.machine} {text}\n")
                sys.stderr.flush()


def _in_foreground() -> bool:
    """Return whether this process has the terminal and so may pass it to the program."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _take_terminal() -> None:
    with suppress(OSError):
        os.tcsetpgrp(0, os.getpgrp())
