"""The process driver: a program that runs inside a machine is that machine (O4).

`fairwarning exec` attaches here, over the control socket, and passes its endpoint's listening
socket on. Machines without a program are another driver's.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.model import Impact, Machine
from fairwarning.machines.driver import Driver, Report
from fairwarning.machines.process import control
from fairwarning.machines.process.control import ControlConnection, Message, ProtocolError
from fairwarning.machines.process.markers import Markers
from fairwarning.machines.process.program import AttachedProgram, Key, PendingImpact

Find = Callable[[str], Awaitable[tuple[str, Machine]]]
"""The scope and the machine of a name. Raises NotFound, or Refused where names are not enough.

NotFound is final: a program that comes back and hears it ends, as its machine was deleted. A
service that cannot know yet raises Unavailable.
"""

OpenDoor = Callable[[socket.socket, str, str], Awaitable[Callable[[], None]]]
"""Answers, on a listening socket, as a machine of a scope; gives back what ends that."""

RETURN_SECONDS = 3.0  # programs come back within half a second; a slow disk may take its time
_ACCEPT_RETRY_SECONDS = 0.5  # when descriptors have run out


class ProcessDriver:
    """Impacts happen to the programs that are the machine; with none, `others` carries them out.

    After a restart, an impact on a machine that was a program waits for its programs to come back,
    for `RETURN_SECONDS` from `listen` at most. They know by its id whether it has happened.
    """

    def __init__(self, others: Driver, find: Find, open_door: OpenDoor, folder: Path) -> None:
        self._others = others
        self._find = find
        self._open_door = open_door
        self._folder = folder
        self._markers = Markers(folder / "attached")
        self._attached: dict[Key, list[AttachedProgram]] = {}
        self._expected = dict(self._markers.read())
        self._waiting: dict[Key, list[tuple[Impact, Report]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: socket.socket | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._closing = False

    async def listen(self) -> None:
        """Let programs attach. Only those of the user this runs as, and root's, may."""
        self._listening = control.listen(self._folder)
        self._begin(self._accept(self._listening))
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(RETURN_SECONDS, self._stop_waiting)

    async def close(self) -> None:
        """Hang up on every program and close its door; they live on, and wait for a service."""
        self._closing = True
        if self._patience is not None:
            self._patience.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            control.remove(self._folder)
            self._listening.close()
            self._listening = None

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Let it happen to every program that is the machine."""
        key = (impact.scope, impact.machine)
        programs = self._attached.get(key, [])
        if key in self._expected:
            self._waiting.setdefault(key, []).append((impact, report))
        elif not programs:
            self._others.carry_out(impact, report)
        else:
            work = PendingImpact(impact, report, programs)
            for program in programs:
                program.order(work)

    # ------------------------------------------------------- programs that come back

    def _stop_waiting(self) -> None:
        for key in list(self._expected):
            self._markers.write(key, len(self._attached.get(key, [])))
            self._wait_no_longer(key)

    def _wait_no_longer(self, key: Key) -> None:
        self._expected.pop(key, None)
        for impact, report in self._waiting.pop(key, []):
            try:
                self.carry_out(impact, report)
            except Exception as error:  # noqa: BLE001  (whatever a driver raises is a failed impact)
                report(impact, f"the driver failed: {error}")

    # ------------------------------------------------------------------- connections

    def _begin(self, work: Coroutine[object, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
            else:
                self._begin_serving(connection)

    def _begin_serving(self, connection: socket.socket) -> None:
        task = self._begin(self._serve(connection))
        # `close` may cancel the task before it has run at all.
        task.add_done_callback(lambda _: connection.close())

    async def _serve(self, connection: socket.socket) -> None:
        wire = ControlConnection(connection)
        program: AttachedProgram | None = None
        try:
            _check_peer(connection)
            message = await wire.receive()
            if message is not None:
                program = await self._attach(wire, message)
                await self._hear(program, wire)
        except FairwarningError as error:
            wire.send({"refused": error.message, "status": error.status})
        except ProtocolError as error:
            wire.send({"refused": f"not understood: {error}", "status": Refused.status})
        finally:
            wire.close()
            if program is not None:
                self._detach(program)

    async def _attach(self, wire: ControlConnection, message: Message) -> AttachedProgram:
        name = message.get("attach")
        if not isinstance(name, str):
            raise ProtocolError("the first message attaches to a machine")
        scope, machine = await self._find(name)
        program = AttachedProgram((scope, machine.name), wire)
        await self._open(program, wire)
        host_name = machine.host_name or machine.name
        wire.send({"attached": machine.name, "host_name": host_name, "scope": scope})
        self._count_in(program)
        return program

    async def _open(self, program: AttachedProgram, wire: ControlConnection) -> None:
        listener = wire.take_socket()
        if listener is None:
            return
        try:
            program.opened(await self._open_door(listener, *program.key))
        except BaseException:
            listener.close()
            raise

    def _count_in(self, program: AttachedProgram) -> None:
        key = program.key
        programs = self._attached.setdefault(key, [])
        programs.append(program)
        if len(programs) >= self._expected.get(key, 0):
            self._markers.write(key, len(programs))
            self._wait_no_longer(key)

    async def _hear(self, program: AttachedProgram, wire: ControlConnection) -> None:
        while (message := await wire.receive()) is not None:
            match message:
                case {"done": str(impact), "error": str(error)}:
                    program.done(impact, error)
                case {"down": True}:
                    program.close_door()
                    wire.send({"closed": True})
                case {"up": True}:
                    await self._open(program, wire)
                case _:
                    raise ProtocolError("no such message")

    def _detach(self, program: AttachedProgram) -> None:
        program.close_door()
        programs = self._attached[program.key]
        programs.remove(program)
        if not programs:
            del self._attached[program.key]
        if self._closing:
            return  # it lives on: the next service waits for it, and hands its impact over again
        if program.key not in self._expected:
            self._markers.write(program.key, len(programs))
        program.gone()


def _check_peer(connection: socket.socket) -> None:
    size = struct.calcsize("3i")
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, user, _ = struct.unpack("3i", peer)
    if user not in {0, os.getuid()}:
        raise Refused("NotAllowed", "this service belongs to another user; run one of your own")
