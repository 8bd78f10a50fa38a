"""The program's side of the control connection: stays attached across restarts of the service.

It does not know how an impact is executed; see `supervisor.py`.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairwarning.core.errors import NotFound, Refused, Unavailable
from fairwarning.machines.process import control
from fairwarning.machines.process.channel import close_all
from fairwarning.machines.process.control import ControlConnection, Message, ProtocolError

RETRY_SECONDS = 0.05  # doubles with each attempt
RETRY_MAX_SECONDS = 0.5  # a restarted service waits a few seconds for its programs
CLOSE_SECONDS = 1.0  # how long a service may take to close an endpoint


@dataclass(frozen=True)
class ImpactOrder:
    """An impact to execute on this program."""

    id: str
    kind: str
    seconds: float


@dataclass(frozen=True)
class AttachedMachine:
    """The machine that the service has accepted a program for."""

    host_name: str
    power: str
    namespaces: list[int]  # descriptors of those to join; none if it has to create them


def check_service(folder: Path) -> None:
    """Raise Unavailable if no service is running."""
    try:
        control.connect(folder).close()
    except PermissionError as error:
        text = f"the service in {folder} belongs to another user; run one of your own"
        raise Refused("NotAllowed", text) from error
    except OSError as error:
        text = (
            f"no service that programs can attach to runs in {folder} (one that uses PostgreSQL"
            " does not count)"
        )
        raise Unavailable("NoService", text) from error


class ServiceLink:
    """The attachment to a machine. It passes each order on once, even if the service repeats it."""

    def __init__(
        self,
        folder: Path,
        machine: str,
        on_attached: Callable[[AttachedMachine], None],
        on_order: Callable[[ImpactOrder], None],
    ) -> None:
        self._folder = folder
        self._machine = machine
        self._on_attached = on_attached
        self._on_order = on_order
        self._was_attached = False  # the service has accepted this program before
        self._connection: ControlConnection | None = None
        self._namespaces: Sequence[int] | None = None  # once the program is inside its machine
        self._listener: socket.socket | None = None
        self._endpoint_closed = asyncio.Event()
        self._errors: dict[str, str | None] = {}  # by order id; None while it is executed
        self._booting = ""  # the id of the order that waits for `_booted`
        self._booted = asyncio.Event()

    async def run(self) -> None:
        """Attach, and attach again whenever the connection is lost, until cancelled.

        Raises Refused if the service refuses the first time, NotFound if the machine is unknown.
        """
        pause = RETRY_SECONDS
        while True:
            with suppress(OSError, ProtocolError):
                connection = ControlConnection(control.connect(self._folder))
                try:
                    if await self._handle_connection(connection):
                        pause = RETRY_SECONDS
                finally:
                    self._connection = None
                    self._endpoint_closed.set()
                    connection.close()
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_MAX_SECONDS)

    def inside(self, namespaces: Sequence[int]) -> None:
        """Let other programs of the machine join these namespaces, if there are any."""
        self._namespaces = namespaces
        if self._connection is not None:
            self._connection.send({"inside": True}, *namespaces)

    def endpoint_up(self, listener: socket.socket) -> None:
        """Have the service answer on this socket, now or when it is back."""
        self._listener = listener
        if self._connection is not None:
            self._connection.send({"up": True}, listener.fileno())

    async def endpoint_down(self) -> None:
        """Have the service close the endpoint; return when it has."""
        self._listener = None
        if self._connection is not None:
            self._endpoint_closed.clear()
            self._connection.send({"down": True})
            with suppress(TimeoutError):
                await asyncio.wait_for(self._endpoint_closed.wait(), CLOSE_SECONDS)

    async def wait_for_boot(self, order: str) -> None:
        """Return when the machine, which is down, has booted by the service's clock."""
        self._booting = order
        self._booted.clear()
        self._report_stopped()
        await self._booted.wait()
        self._booting = ""

    def _report_stopped(self) -> None:
        if self._booting and self._connection is not None:
            self._connection.send({"stopped": self._booting})

    def done(self, order: str, error: str) -> None:
        """Report that an order was executed. A disconnected service will send it again."""
        self._errors[order] = error
        if self._connection is not None:
            self._connection.send({"done": order, "error": error})

    def leave(self) -> None:
        """Report that the program has ended by itself; the machine goes on without it."""
        if self._connection is not None:
            self._connection.send({"ended": True})

    async def _handle_connection(self, connection: ControlConnection) -> bool:
        """Handle messages until the service disconnects; return whether it accepted us."""
        attached = False
        self._connection = connection
        connection.send({"attach": self._machine, "again": self._was_attached})
        while (message := await connection.receive()) is not None:
            match message:
                case {"attached": _, "host_name": str(host_name), "power": str(power)}:
                    attached = True
                    namespaces = connection.take_descriptors(2)
                    self._handle_attached(AttachedMachine(host_name, power, namespaces))
                case _:
                    self._handle(message)
        return attached

    def _handle_attached(self, machine: AttachedMachine) -> None:
        if not self._was_attached:
            self._was_attached = True
            self._on_attached(machine)
            return
        close_all(machine.namespaces)
        if self._namespaces is not None:
            self.inside(self._namespaces)
        if self._listener is not None:
            self.endpoint_up(self._listener)
        self._report_stopped()  # an earlier service may not have received it

    def _handle(self, message: Message) -> None:
        match message:
            case {"refused": str(text), "status": int(status)}:
                self._handle_refusal(text, status)
            case {"order": str(order), "do": str(kind), "seconds": int() | float() as seconds}:
                self._handle_order(ImpactOrder(order, kind, seconds))
            case {"boot": self._booting}:
                self._booted.set()
            case {"closed": True}:
                self._endpoint_closed.set()

    def _handle_refusal(self, text: str, status: int) -> None:
        if status == NotFound.status:
            raise NotFound("NotFound", text)
        if not self._was_attached:
            raise Refused("Refused", text)
        # A service that accepted us before may do so again once it has recovered.

    def _handle_order(self, order: ImpactOrder) -> None:
        if order.id not in self._errors:
            self._errors[order.id] = None
            self._on_order(order)
            return
        error = self._errors[order.id]
        if error is not None:
            self.done(order.id, error)
