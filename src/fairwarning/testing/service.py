"""A whole service on a thread of its own, in virtual time: memory store, simulated machines.

What a test holds of it is in `handles`; here is how it runs, and how it is asked.
"""

import asyncio
import http.client
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Coroutine, Iterable
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from fairwarning.core.commands import Command, CreateScope, Poll
from fairwarning.core.document import document
from fairwarning.core.errors import FairwarningError, Refused, Unavailable
from fairwarning.core.model import Operation, Rollout, RolloutStatus, ScaleSet, Scope
from fairwarning.guest import events as guest
from fairwarning.machines.simulated import SimulatedDriver
from fairwarning.metadata.callers import by_local_address, for_machine, loopback_address
from fairwarning.metadata.listeners import open_tcp, open_unix
from fairwarning.metadata.server import MetadataServer
from fairwarning.service.clock import VirtualClock
from fairwarning.service.config.fleet_file import Create, FleetFile
from fairwarning.service.fleet import Fleet
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import JournalEntry, MachineLocation

LONGEST_SECONDS = 60.0  # real ones; nothing takes as long, so a hang is told as such
_FULLEST = "2024-07-09"  # the api-version that shows every type of event
_PAGE = 1000  # entities read at once

T = TypeVar("T")


class ServiceThread:
    """Runs from `open` to `close`. Any thread may call it; what it does is done on its own."""

    fleet: Fleet
    port = 0

    def __init__(self, file: FleetFile, start: float, *, sockets: bool) -> None:
        self.file = file
        self.clock = VirtualClock(start)
        self.silent: set[str] = set()  # scale sets whose instances are not to have asked yet
        self._sockets = sockets
        self._doors: dict[int, str] = {}  # Unix sockets by the number of their machine
        self._ends: list[float] = []  # when impacts will have been carried out
        self._numbers = count(1)
        self._token = secrets.token_hex(3)  # as in life, no two clouds have an event in common
        self._folder: Path | None = None

    # --- Life ---

    def open(self) -> None:
        """Return once it is up."""
        up: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live(up)), name="fairwarning", daemon=True
        )
        self._thread.start()
        up.result(LONGEST_SECONDS)

    async def _live(self, up: "Future[None]") -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            try:
                await self._start(stack)
            except BaseException as error:  # noqa: BLE001  (it is raised where it is waited for)
                up.set_exception(error)
                return
            up.set_result(None)
            await self._ending.wait()

    async def _start(self, stack: AsyncExitStack) -> None:
        self.fleet = Fleet(MemoryStore(), self.clock, SimulatedDriver(self._later))
        await self.fleet.start()
        stack.push_async_callback(self.fleet.stop)
        self._server = MetadataServer(self.fleet, self.file.cloud, self.file.endpoint)
        stack.push_async_callback(self._server.stop)
        if not self._sockets:
            listener = open_tcp("127.0.0.1", 0)
            self.port = listener.getsockname()[1]
            await self._server.listen(listener, by_local_address)

    def close(self) -> None:
        """Return once nothing of it is left."""
        if not self.is_open:
            return
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(LONGEST_SECONDS)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def is_open(self) -> bool:
        """Whether it runs."""
        return self._thread.is_alive() and not self._ending.is_set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it on the service's own thread."""
        if not self.is_open:
            work.close()
            raise _over()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(LONGEST_SECONDS)
        except TimeoutError:
            future.cancel()
            text = f"the cloud did not get done within {LONGEST_SECONDS:g} seconds of real time"
            raise Unavailable("Stuck", text) from None
        except CancelledError:  # it ended while another thread asked
            raise _over() from None
        except FairwarningError as error:
            raise error.with_traceback(None) from None  # where it was decided is no help in a test

    # --- Commands and time ---

    def name(self) -> str:
        """A name for an operation or a rollout."""
        return f"op-{self._token}-{next(self._numbers)}"

    def submit(self, command: Command) -> Operation | None:
        """Have it decided, and whatever follows from it at once."""
        return self.run(self._submit(command))

    async def _submit(self, command: Command) -> Operation | None:
        operation = await self.fleet.submit(command)
        await self.fleet.settled()
        return operation

    def create(self, commands: Iterable[Create], *, enabled: bool) -> list[MachineLocation]:
        """Create these; their machines, in order. If `enabled`, each scope has asked once."""
        return self.run(self._create(commands, enabled=enabled))

    async def _create(self, commands: Iterable[Create], *, enabled: bool) -> list[MachineLocation]:
        made: list[MachineLocation] = []
        for command in commands:
            await self.fleet.submit(command)
            if isinstance(command, CreateScope):
                scopes: tuple[str, ...] = (command.scope,)
            else:
                self.silent |= set() if enabled else {command.set}
                scopes = await self._groups(command.set)
            if enabled:
                await self._enable(scopes)
            made += await self.machines_of(scopes)
        return made

    async def _groups(self, scale_set: str) -> tuple[str, ...]:
        found = await self.fleet.reader.read(ScaleSet, scale_set)
        return found.groups if found else ()

    async def _enable(self, scopes: Iterable[str]) -> None:
        for name in scopes:
            scope = await self.fleet.reader.read(Scope, name)
            if scope and not scope.enabled:
                await self.fleet.submit(Poll(scope=name, actor="machine"))

    async def enable_set(self, scale_set: str) -> None:
        """Also the placement groups that it gained have asked, unless it is to be silent."""
        if scale_set not in self.silent:
            await self._enable(await self._groups(scale_set))

    def _later(self, seconds: float, call: Any) -> None:  # noqa: ANN401  (as the driver has it)
        moment = self.clock.now() + seconds
        heappush(self._ends, moment)
        self.clock.call_at(moment, call)

    async def settle(self) -> None:
        """Let time pass until nothing is planned or under way."""
        await self.fleet.settled()
        while await self._busy():
            now = self.clock.now()
            while self._ends and self._ends[0] <= now:
                heappop(self._ends)
            due = await self.fleet.store.next_due()
            moments = [moment for moment in (*self._ends[:1], due) if moment is not None]
            await self.fleet.advance(max(min(moments, default=now) - now, 1.0))

    async def _busy(self) -> bool:
        if any(scope.events or scope.impacts for scope in await self.scopes()):
            return True
        for name in await self.fleet.store.list_ids(Rollout, "", _PAGE):
            rollout = await self.fleet.reader.read(Rollout, name)
            if rollout and rollout.status is RolloutStatus.RUNNING:
                return True
        return False

    # --- What there is ---

    async def scopes(self) -> list[Scope]:
        """Every scope."""
        found: list[Scope] = []
        last = ""
        while names := await self.fleet.store.list_ids(Scope, last, _PAGE):
            read = [await self.fleet.reader.read(Scope, name) for name in names]
            found += [scope for scope in read if scope]
            last = names[-1]
        return found

    async def machines_of(self, scopes: Iterable[str]) -> list[MachineLocation]:
        """The machines of these, in order."""
        found: list[MachineLocation] = []
        for name in scopes:
            scope = await self.fleet.reader.read(Scope, name)
            for machine in scope.machines if scope else ():
                places = await self.fleet.reader.find_machines(name=machine)
                found += [place for place in places if place.scope == name]
        return found

    async def announced(self, scope: str) -> list[guest.Event]:
        """The events of a scope, as its machines would read them; nobody has asked thereby."""
        found = await self.fleet.reader.read(Scope, scope)
        return list(guest.read(document(found, _FULLEST)).events) if found else []

    async def journal(self) -> list[JournalEntry]:
        """All of it."""
        found: list[JournalEntry] = []
        while lines := await self.fleet.store.journal(after=len(found), limit=_PAGE):
            found += lines
        return found

    # --- Machines' own way in ---

    def url(self, place: MachineLocation) -> str:
        """Where this machine asks: an address of its own, or a Unix socket."""
        if not self._sockets:
            return f"http://{loopback_address(place.number)}:{self.port}"
        return f"unix:{self._doors.get(place.number) or self.run(self._open_door(place))}"

    async def _open_door(self, place: MachineLocation) -> str:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="fw-"))  # short: a path has 100 characters
        path = self._folder / f"{place.number}.sock"
        await self._server.listen(open_unix(path), for_machine(place.scope, place.machine.name))
        self._doors[place.number] = str(path)
        return str(path)


def _over() -> Refused:
    return Refused("CloudOver", "this cloud is over: it ends with the test it was made for")


def addresses() -> bool:
    """Whether each machine can have an address of its own; macOS has only 127.0.0.1."""
    with socket.socket() as probe:
        try:
            probe.bind((loopback_address(1), 0))
        except OSError:
            return False
    return True


def ask(url: str, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """One request of a machine, and its answer."""
    connection = _connection(url)
    try:
        connection.request(method, path, body, {"Metadata": "true"})
        response = connection.getresponse()
        return response.status, response.read()
    except TimeoutError:
        text = f"no answer within {LONGEST_SECONDS:g} seconds: does it wait for time to pass?"
        raise Unavailable("NoAnswer", text) from None
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable("NoAnswer", f"no answer: {error!r}") from error
    finally:
        connection.close()


def _connection(url: str) -> http.client.HTTPConnection:
    if not url.startswith("unix:"):
        return http.client.HTTPConnection(urlsplit(url).netloc, timeout=LONGEST_SECONDS)
    connection = http.client.HTTPConnection("localhost", timeout=LONGEST_SECONDS)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(LONGEST_SECONDS)
    try:
        connection.sock.connect(url.removeprefix("unix:"))
    except BaseException:
        connection.sock.close()
        raise
    return connection
