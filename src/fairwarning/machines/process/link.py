"""The program's side of the control connection: it stays attached, across restarts of the service.

Nothing here knows what an impact does; see `inside.py`.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairwarning.core.errors import NotFound, Refused, Unavailable
from fairwarning.machines.process import control
from fairwarning.machines.process.control import ControlConnection, Message, ProtocolError

RETRY_SECONDS = 0.05  # doubles with each try
RETRY_MAX_SECONDS = 0.5  # a service that has just restarted waits for its programs a few seconds
CLOSED_SECONDS = 1.0  # how long a service may take to close a door


@dataclass(frozen=True)
class ImpactOrder:
    """An impact that is to happen to this program, by its id."""

    id: str
    do: str
    seconds: float


def check_service(folder: Path) -> None:
    """Raise Unavailable, and say what to do, where no service runs."""
    try:
        control.connect(folder).close()
    except PermissionError as error:
        text = f"the service in {folder} belongs to another user; run one of your own"
        raise Refused("NotAllowed", text) from error
    except OSError as error:
        text = (
            f"no service that programs can be inside of runs in {folder}; start one with"
            " `fairwarning up` (one on a database is none), or name its --data"
        )
        raise Unavailable("NoService", text) from error


class ServiceLink:
    """Attached to a machine. Each order is given on once, however often the service repeats it."""

    def __init__(
        self,
        folder: Path,
        machine: str,
        on_attached: Callable[[str], None],
        on_order: Callable[[ImpactOrder], None],
    ) -> None:
        self._folder = folder
        self._machine = machine
        self._on_attached = on_attached
        self._on_order = on_order
        self._known = False  # the service has had this machine
        self._wire: ControlConnection | None = None
        self._listener: socket.socket | None = None
        self._closed = asyncio.Event()
        self._errors: dict[str, str | None] = {}  # by order; None while it is under way

    async def keep(self) -> None:
        """Attach, and attach again whenever the service has gone; for as long as this runs.

        Raises Refused if the service refuses at first, NotFound whenever it has no such machine.
        """
        pause = RETRY_SECONDS
        while True:
            with suppress(OSError, ProtocolError):
                wire = ControlConnection(control.connect(self._folder))
                try:
                    if await self._converse(wire):
                        pause = RETRY_SECONDS
                finally:
                    self._wire = None
                    self._closed.set()
                    wire.close()
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_MAX_SECONDS)

    def up(self, listener: socket.socket) -> None:
        """The endpoint is there: the service is to answer on it, now or when it is back."""
        self._listener = listener
        if self._wire is not None:
            self._wire.send({"up": True}, listener)

    async def down(self) -> None:
        """The endpoint goes; returns when the service has let go of it."""
        self._listener = None
        if self._wire is not None:
            self._closed.clear()
            self._wire.send({"down": True})
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), CLOSED_SECONDS)

    def done(self, order: str, error: str) -> None:
        """An order is carried out. A service that is away will ask again."""
        self._errors[order] = error
        if self._wire is not None:
            self._wire.send({"done": order, "error": error})

    async def _converse(self, wire: ControlConnection) -> bool:
        """Until the service hangs up; whether it had us."""
        attached = False
        self._wire = wire
        wire.send({"attach": self._machine}, self._listener)
        while (message := await wire.receive()) is not None:
            attached = self._take(message) or attached
        return attached

    def _take(self, message: Message) -> bool:
        match message:
            case {"attached": _, "host_name": str(host_name)}:
                self._known = True
                self._on_attached(host_name)
                return True
            case {"refused": str(text), "status": int(status)}:
                self._refuse(text, status)
            case {"order": str(order), "do": str(do), "seconds": int() | float() as seconds}:
                self._take_order(ImpactOrder(order, do, seconds))
            case {"closed": True}:
                self._closed.set()
        return False

    def _refuse(self, text: str, status: int) -> None:
        if status == NotFound.status:
            raise NotFound("NotFound", text)
        if not self._known:
            raise Refused("Refused", text)
        # A service that once had us may have us again, once it is in order.

    def _take_order(self, order: ImpactOrder) -> None:
        if order.id not in self._errors:
            self._errors[order.id] = None
            self._on_order(order)
            return
        error = self._errors[order.id]
        if error is not None:
            self.done(order.id, error)
