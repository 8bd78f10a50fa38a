"""The process driver: a program that runs inside a machine acts as that machine (O4).

`fairwarning exec` attaches here, over the control socket, and passes the listening socket of its
endpoint. Another driver handles machines without a program.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path

from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.core.model import Impact, ImpactKind, Machine
from fairwarning.machines.driver import Driver, Later, Report
from fairwarning.machines.process import control
from fairwarning.machines.process.control import (
    ControlConnection,
    Message,
    ProtocolError,
    check_peer,
)
from fairwarning.machines.process.program import (
    AttachedProgram,
    Key,
    Markers,
    PendingImpact,
    SharedNamespaces,
)

log = logging.getLogger(__name__)

Find = Callable[[str], Awaitable[tuple[str, Machine]]]
"""Returns the scope and the machine of a name. Raises NotFound, or Refused if it is ambiguous.

NotFound is final: a reconnecting program that receives it ends, as its machine was deleted. A
service that cannot know yet raises Unavailable.
"""

ServeEndpoint = Callable[[socket.socket, str, str], Awaitable[Callable[[], None]]]
"""Serves metadata on a listening socket for a machine of a scope; returns a function to stop."""

RETURN_SECONDS = 3.0  # programs reconnect within half a second; a slow disk may delay them
_CHANGES_POWER = {
    ImpactKind.START,
    ImpactKind.STOP,
    ImpactKind.DEALLOCATE,
    ImpactKind.EVICT,
    ImpactKind.DELETE,
}
_ACCEPT_RETRY_SECONDS = 0.5  # after running out of file descriptors


class ProcessDriver:
    """Executes impacts on the programs of a machine; without any, on the fallback driver.

    After a restart, impacts on a machine that had programs wait for them to reconnect, at most for
    `RETURN_SECONDS` after `listen`. The programs know by its id whether an impact was executed.
    """

    def __init__(
        self,
        fallback: Driver,
        find: Find,
        serve_endpoint: ServeEndpoint,
        folder: Path,
        *,
        later: Later,
        boot_seconds: float,
    ) -> None:
        self._fallback = fallback
        self._find = find
        self._serve_endpoint = serve_endpoint
        self._folder = folder
        self._later = later
        self._boot_seconds = boot_seconds
        self._markers = Markers(folder / "attached")
        self._attached: dict[Key, list[AttachedProgram]] = {}
        self._namespaces = SharedNamespaces()
        self._expected = dict(self._markers.read())
        self._returned = {key: asyncio.Event() for key in self._expected}
        self._waiting: dict[Key, list[tuple[Impact, Report]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: socket.socket | None = None
        self._return_timer: asyncio.TimerHandle | None = None
        self._closing = False

    async def listen(self) -> None:
        """Let programs attach, if they run as the user of the service or as root."""
        try:
            self._listening = control.listen(self._folder)
        except control.PathTooLongError as error:
            log.warning("programs cannot attach with `fairwarning exec`: %s", error)
            self._stop_waiting()
            return
        self._start_task(self._accept(self._listening))
        loop = asyncio.get_running_loop()
        self._return_timer = loop.call_later(RETURN_SECONDS, self._stop_waiting)

    def remove_files(self) -> None:
        """Remove the control socket; the process is about to end."""
        if self._listening is not None:
            control.remove(self._folder)

    async def close(self) -> None:
        """Disconnect every program and close its endpoint; programs wait for the next service."""
        self._closing = True
        if self._return_timer is not None:
            self._return_timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listening is not None:
            control.remove(self._folder)
            self._listening.close()
            self._listening = None

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Execute the impact on every program of the machine."""
        key = (impact.scope, impact.machine)
        programs = self._attached.get(key, [])
        if key in self._expected:
            self._waiting.setdefault(key, []).append((impact, report))
        elif not programs:
            self._fallback.carry_out(impact, partial(self._follow_fallback, report))
        else:
            self._order(impact, report, programs)

    def is_attached(self, scope: str, machine: str) -> bool:
        """Return whether a program acts as this machine."""
        return (scope, machine) in self._attached

    def _order(self, impact: Impact, report: Report, programs: list[AttachedProgram]) -> None:
        again, later = self._carry_out_again, self._boot_later
        pending = PendingImpact(impact, report, programs, hand_over=again, boot_later=later)
        for program in programs:
            program.order(pending)

    def _follow_fallback(self, report: Report, impact: Impact, error: str) -> None:
        """Let programs that attached meanwhile follow the machine's new power state."""
        programs = self._attached.get((impact.scope, impact.machine), [])
        if programs and not error and impact.kind in _CHANGES_POWER:
            self._order(impact, report, programs)
        else:
            report(impact, error)

    def _boot_later(self, boot: Callable[[], None]) -> None:
        if self._boot_seconds:
            self._later(self._boot_seconds, boot)
        else:
            boot()

    def _carry_out_again(self, impact: Impact, report: Report) -> None:
        try:
            self.carry_out(impact, report)
        except Exception as error:  # noqa: BLE001  (any exception of a driver fails the impact)
            report(impact, f"the driver failed: {error}")

    # ------------------------------------------------- programs that reconnect

    def _stop_waiting(self) -> None:
        for key in list(self._expected):
            self._markers.write(key, len(self._attached.get(key, [])))
            self._release_waiting(key)

    def _release_waiting(self, key: Key) -> None:
        self._expected.pop(key, None)
        if key in self._returned:
            self._returned.pop(key).set()
        for impact, report in self._waiting.pop(key, []):
            self._carry_out_again(impact, report)

    # ------------------------------------------------------------------- connections

    def _start_task(self, coroutine: Coroutine[object, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
            else:
                self._start_serving(accepted)

    def _start_serving(self, accepted: socket.socket) -> None:
        task = self._start_task(self._serve(accepted))
        # `close` may cancel the task before it has started.
        task.add_done_callback(lambda _: accepted.close())

    async def _serve(self, accepted: socket.socket) -> None:
        connection = ControlConnection(accepted)
        try:
            check_peer(accepted)
            message = await connection.receive()
            if message is not None:
                await self._serve_program(connection, message)
        except FairwarningError as error:
            connection.send({"refused": error.message, "status": error.status})
        except ProtocolError as error:
            connection.send({"refused": f"invalid message: {error}", "status": Refused.status})
        finally:
            connection.close()

    async def _serve_program(self, connection: ControlConnection, message: Message) -> None:
        name = message.get("attach")
        if not isinstance(name, str):
            raise ProtocolError("the first message must attach to a machine")
        scope, machine = await self._find(name)
        program = AttachedProgram((scope, machine.name), connection)
        if program.key in self._returned and not message.get("again"):
            await self._returned[program.key].wait()
        with self._namespaces.member(program):
            connection.send(
                {
                    "attached": machine.name,
                    "host_name": machine.host_name or machine.name,
                    "scope": scope,
                    "power": machine.power.value,
                },
                *await self._namespaces.to_join(program),
            )
            self._register(program)
            try:
                await self._receive_messages(program, connection)
            finally:
                self._detach(program)

    async def _open_endpoint(self, program: AttachedProgram, connection: ControlConnection) -> None:
        listener = connection.take_socket()
        if listener is None:
            raise ProtocolError("no socket is attached")
        try:
            program.set_endpoint(await self._serve_endpoint(listener, *program.key))
        except BaseException:
            listener.close()
            raise

    def _register(self, program: AttachedProgram) -> None:
        key = program.key
        programs = self._attached.setdefault(key, [])
        programs.append(program)
        if len(programs) >= self._expected.get(key, 0):
            self._markers.write(key, len(programs))
            self._release_waiting(key)

    async def _receive_messages(
        self, program: AttachedProgram, connection: ControlConnection
    ) -> None:
        while (message := await connection.receive()) is not None:
            match message:
                case {"done": str(impact), "error": str(error)}:
                    program.done(impact, error)
                case {"stopped": str(impact)}:
                    if not program.stopped(impact):  # of an earlier service that forgot it
                        self._boot_later(partial(program.boot, impact))
                case {"inside": True}:
                    program.namespaces.set(connection.take_descriptors(2))
                case {"ended": True}:
                    program.ended()
                case {"down": True}:
                    program.close_endpoint()
                    connection.send({"closed": True})
                case {"up": True}:
                    await self._open_endpoint(program, connection)
                case _:
                    raise ProtocolError("unknown message")

    def _detach(self, program: AttachedProgram) -> None:
        program.close_endpoint()
        programs = self._attached[program.key]
        programs.remove(program)
        if not programs:
            del self._attached[program.key]
        if self._closing:
            return  # the program continues; the next service hands its impact over again
        if program.key not in self._expected:
            self._markers.write(program.key, len(programs))
        program.disconnected()
