"""The supervisor: runs a program as if inside a machine, and executes the machine's impacts on it.

It runs outside the machine's namespaces, in a process group of its own, so neither the program nor
the terminal can stop it. It decides when the program runs; `init.py` starts and signals it,
`link.py` talks to the service, and `foreground.py` to the user.
"""

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from enum import Enum

from fairwarning.core.errors import FairwarningError, NotFound
from fairwarning.machines.process import namespace
from fairwarning.machines.process.channel import Channel, close_all
from fairwarning.machines.process.init import KILLED
from fairwarning.machines.process.link import AttachedMachine, ImpactOrder, ServiceLink
from fairwarning.machines.process.machine_program import MachineProgram
from fairwarning.machines.process.relay import PortRelay

KILL_SECONDS = 5.0  # for processes to end after SIGKILL, where the kernel does not tell
ANSWER_SECONDS = 1.0  # for the answer to an approval to reach the program that the impact ends

_HARMLESS = {signal.SIGUSR1, signal.SIGUSR2}  # they do not end a machine that is down
_RUNNING = "running"  # the power state of a machine that is up
_FINAL = {"evict", "delete"}
_EMPTYING = {"redeploy", "reimage"}  # of the temporary disk
_LEAVING = _FINAL | {"deallocate"}  # the host, and so the temporary disk
_BOOTING = _EMPTYING | {"reboot", "start"}
_ENDING = _FINAL | _EMPTYING | {"reboot", "stop", "deallocate"}
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


def run_supervisor(program: MachineProgram, foreground: Channel, init: Channel) -> None:
    """Run the supervisor in this process; report the exit code to the foreground process."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # to write while the program has the terminal
    if program.isolation.namespaces:
        namespace.die_with_parent(signal.SIGKILL)
    asyncio.run(_run(program, foreground, init))


async def _run(program: MachineProgram, foreground: Channel, init: Channel) -> None:
    supervisor = Supervisor(program, foreground, init)
    try:
        foreground.send("exit", await supervisor.run())
    except FairwarningError as error:
        foreground.send("error", error.status, error.message)


class _Phase(Enum):
    RUNNING = 1
    ENDING = 2
    DOWN = 3


class Supervisor:
    """Starts, stops and freezes a machine's program as the service orders."""

    def __init__(self, program: MachineProgram, foreground: Channel, init: Channel) -> None:
        self._program = program
        self._isolated = program.isolation.namespaces
        self._relay = PortRelay(program.forwarded)
        self._foreground = foreground
        self._init = init
        self._link = ServiceLink(program.folder, program.machine, self._attached, self._enqueue)
        self._host_name = ""
        self._starts = True  # as soon as the machine exists
        self._endpoint: socket.socket | None = None  # once the machine exists
        self._created = asyncio.Event()
        self._phase = _Phase.DOWN
        self._ended = asyncio.Event()  # the program
        self._empty = asyncio.Event()  # no process is left inside
        self._ended.set()
        self._empty.set()
        self._code = 0  # exit code of the last run of the program
        self._power_loss: asyncio.Task[None] | None = None
        self._orders: asyncio.Queue[ImpactOrder] = asyncio.Queue()
        self._exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> int:
        """Run until the program ends by itself or the machine is removed; return the exit code."""
        loop = asyncio.get_running_loop()
        for channel, receive in (
            (self._foreground, self._receive_from_foreground),
            (self._init, self._receive_from_init),
        ):
            channel.set_nonblocking()
            loop.add_reader(channel, receive)
        tasks = [asyncio.create_task(self._link.run()), asyncio.create_task(self._execute_orders())]
        for task in tasks:
            task.add_done_callback(self._fail)
        try:
            return await self._exit_code
        finally:
            for channel in (self._foreground, self._init):
                loop.remove_reader(channel)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._relay.close()

    # ------------------------------------------------------------------------ impacts

    async def _execute_orders(self) -> None:
        await self._created.wait()
        while True:
            order = await self._orders.get()
            if order.kind in _ENDING and self._phase is _Phase.RUNNING:
                await asyncio.sleep(ANSWER_SECONDS)
            self._report(_MESSAGES.get(order.kind, "got an unknown impact").format_map(vars(order)))
            error = ""
            try:
                await self._execute(order)
            except OSError as failure:
                error = str(failure)
            if self._ends_with(order) and order.kind in _BOOTING:
                self._link.leave()
            else:
                self._link.done(order.id, error)
            if self._ends_with(order):
                self._finish(self._code)

    def _ends_with(self, order: ImpactOrder) -> bool:
        """Return whether exec ends after this impact."""
        return order.kind in _FINAL or (self._program.once and order.kind in _ENDING)

    async def _execute(self, order: ImpactOrder) -> None:
        if order.kind not in _MESSAGES:
            raise OSError(f"unknown impact {order.kind}; update fairwarning")
        if order.kind == "freeze":
            await self._freeze(order.seconds)
        if order.kind in _ENDING:
            await self._stop()
        if order.kind in _LEAVING:
            with suppress(OSError):  # the machine has left all the same
                self._program.temporary.empty()
        if order.kind in _BOOTING and self._phase is _Phase.DOWN:
            try:
                self._prepare_disk(order)
            finally:
                if not self._ends_with(order):
                    await self._link.wait_for_boot(order.id)
                    self._start()

    def _prepare_disk(self, order: ImpactOrder) -> None:
        if order.kind in _EMPTYING:
            self._program.temporary.empty()
        else:
            self._program.temporary.make()

    async def _freeze(self, seconds: float) -> None:
        self._init.send("freeze")
        await asyncio.sleep(seconds)
        self._init.send("thaw")

    async def _stop(self) -> None:
        """End the program, then the processes that it has left."""
        self._phase = _Phase.ENDING
        grace = self._program.grace_seconds
        self._init.send("program", signal.SIGTERM)
        self._init.send("all", signal.SIGCONT)  # so that stopped processes can end, too
        await _happens(self._ended, grace)
        if not self._empty.is_set():
            self._init.send("all", signal.SIGTERM)
            if not await _happens(self._empty, grace):
                self._init.send("all", signal.SIGKILL)
                await _happens(self._empty, None if self._isolated else KILL_SECONDS)
        await self._close_endpoint()
        self._phase = _Phase.DOWN

    def _start(self) -> None:
        self._open_endpoint()
        self._ended.clear()
        self._empty.clear()
        self._init.send("start")
        self._phase = _Phase.RUNNING

    def _open_endpoint(self) -> None:
        if self._endpoint is not None:
            namespace.open_endpoint(self._endpoint)
            self._link.endpoint_up(self._endpoint)

    async def _close_endpoint(self) -> None:
        if self._endpoint is not None:
            await self._link.endpoint_down()
            namespace.close_endpoint(self._endpoint)

    # ------------------------------------------------------- events from the service

    def _attached(self, machine: AttachedMachine) -> None:
        self._host_name = machine.host_name
        self._starts = machine.power == _RUNNING
        if not self._starts:
            self._report(f"is {machine.power}; it waits to be started")
        self._foreground.send("enter", descriptors=machine.namespaces)
        close_all(machine.namespaces)

    def _enqueue(self, order: ImpactOrder) -> None:
        self._orders.put_nowait(order)

    # ------------------------------- events from the init process and the foreground process

    def _receive_from_init(self) -> None:
        words, _ = self._init.receive()
        match words:
            case ["ended", int(code)]:
                self._code = code
                self._ended.set()
                if self._phase is _Phase.RUNNING:
                    self._link.leave()
                    self._finish(code)
            case ["empty"]:
                self._empty.set()
            case ["suspended"]:
                self._foreground.send("suspend")
            case []:
                self._finish(KILLED + signal.SIGKILL)

    def _receive_from_foreground(self) -> None:
        words, descriptors = self._foreground.receive()
        match words:
            case ["machine"]:
                self._endpoint = socket.socket(fileno=descriptors[0])
                self._link.inside(descriptors[1:3])
                self._relay.start([socket.socket(fileno=number) for number in descriptors[3:]])
                self._init.send("name", self._host_name)
                if self._starts:
                    self._start()
                self._created.set()
            case ["signal", int(number)]:
                self._signalled(signal.Signals(number))
            case ["resumed", bool(foreground)]:
                self._init.send("resume", foreground)
            case []:
                asyncio.get_running_loop().remove_reader(self._foreground)
                self._power_loss = asyncio.create_task(self._lose_power())

    def _signalled(self, number: signal.Signals) -> None:
        if self._phase is _Phase.RUNNING:
            self._init.send("program", number)
        elif number not in _HARMLESS:
            self._finish(KILLED + number)

    # ---------------------------------------------------------------------------- ends

    async def _lose_power(self) -> None:
        """Kill all processes, because the process that the user started was killed."""
        self._phase = _Phase.ENDING
        self._init.send("all", signal.SIGKILL)
        await _happens(self._empty, KILL_SECONDS)
        self._finish(KILLED + signal.SIGKILL)

    def _finish(self, code: int) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(code)

    def _fail(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None or self._exit_code.done():
            return
        if (
            isinstance(error, NotFound) and self._created.is_set()
        ):  # deleted while we were disconnected
            self._enqueue(ImpactOrder(id="", kind="delete", seconds=0))
        else:
            self._exit_code.set_exception(error)

    def _report(self, text: str) -> None:
        if not self._program.quiet:
            with suppress(OSError):
                sys.stderr.write(f"fairwarning: {self._program.machine} {text}\n")
                sys.stderr.flush()


async def _happens(event: asyncio.Event, seconds: float | None) -> bool:
    """Return whether the event happens within that time; None is for ever."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
