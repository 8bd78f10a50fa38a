"""The service in a thread, with a virtual clock, a memory store and simulated machines.

Tests use it through `handles`; this module runs it and sends requests to it.
"""

import asyncio
import secrets
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Iterable
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack, closing
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from fairwarning.core.commands import Command, CreateScope, Poll
from fairwarning.core.document import document
from fairwarning.core.errors import FairwarningError, Refused, Unavailable
from fairwarning.core.model import Operation, Rollout, RolloutStatus, ScaleSet, Scope
from fairwarning.guest import events as guest
from fairwarning.guest.endpoint import endpoint
from fairwarning.guest.session import HttpRequest
from fairwarning.guest.transport import HttpTransport
from fairwarning.machines.simulated import SimulatedDriver
from fairwarning.metadata.callers import by_local_address, for_machine, loopback_address
from fairwarning.metadata.listeners import open_tcp, open_unix
from fairwarning.metadata.server import MetadataServer
from fairwarning.service.clock import VirtualClock
from fairwarning.service.config.fleet_file import Create, FleetFile
from fairwarning.service.fleet import Fleet
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import JournalEntry, MachineLocation

LONGEST_SECONDS = 60.0  # real time; a call that takes longer hangs
_ALL_TYPES_VERSION = "2024-07-09"  # the api-version that has every type of event
_PAGE = 1000  # entities read at once

T = TypeVar("T")


class ServiceThread:
    """Runs from `open` to `close`. Thread-safe: the work is done on its own thread."""

    fleet: Fleet
    port = 0

    def __init__(self, file: FleetFile, start: float, *, sockets: bool) -> None:
        self.file = file
        self.clock = VirtualClock(start)
        self.silent: set[str] = set()  # scale sets whose instances have not polled
        self._sockets = sockets
        self._socket_paths: dict[int, str] = {}  # by the number of the machine
        self._impact_ends: list[float] = []  # a heap of times
        self._numbers = count(1)
        self._token = secrets.token_hex(3)  # so that no two clouds share an event id
        self._folder: Path | None = None

    # --- Start and stop ---

    def open(self) -> None:
        """Start the thread; return once the service is up."""
        up: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(up)), name="fairwarning", daemon=True
        )
        self._thread.start()
        up.result(LONGEST_SECONDS)

    async def _run(self, up: "Future[None]") -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            try:
                await self._start(stack)
            except BaseException as error:  # noqa: BLE001  (raised in `open`)
                up.set_exception(error)
                return
            up.set_result(None)
            await self._closing.wait()

    async def _start(self, stack: AsyncExitStack) -> None:
        self.fleet = Fleet(MemoryStore(), self.clock, SimulatedDriver(self._call_later))
        await self.fleet.start()
        stack.push_async_callback(self.fleet.stop)
        self._server = MetadataServer(self.fleet, self.file.cloud, self.file.endpoint)
        stack.push_async_callback(self._server.stop)
        if not self._sockets:
            listener = open_tcp("127.0.0.1", 0)
            self.port = listener.getsockname()[1]
            await self._server.listen(listener, by_local_address)

    def close(self) -> None:
        """Stop the service; return once it has stopped and its files are removed."""
        if not self.is_open:
            return
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(LONGEST_SECONDS)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def is_open(self) -> bool:
        """Whether the service runs."""
        return self._thread.is_alive() and not self._closing.is_set()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread of the service and return its result."""
        if not self.is_open:
            coroutine.close()
            raise _closed()
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(LONGEST_SECONDS)
        except TimeoutError:
            future.cancel()
            text = f"the cloud did not finish within {LONGEST_SECONDS:g} seconds of real time"
            raise Unavailable("Stuck", text) from None
        except CancelledError:  # the cloud closed during the call
            raise _closed() from None
        except FairwarningError as error:
            raise error.with_traceback(None) from None  # the service's frames do not help a test

    # --- Commands and time ---

    def new_id(self) -> str:
        """Return a new id for an operation or a rollout."""
        return f"op-{self._token}-{next(self._numbers)}"

    def submit(self, command: Command) -> Operation | None:
        """Submit a command, and wait for its immediate effects."""
        return self.run(self._submit(command))

    async def _submit(self, command: Command) -> Operation | None:
        operation = await self.fleet.submit(command)
        await self.fleet.settled()
        return operation

    async def create(self, commands: Iterable[Create], *, enabled: bool) -> list[MachineLocation]:
        """Create scopes and sets, polled if `enabled`; return their machines in order."""
        locations: list[MachineLocation] = []
        for command in commands:
            await self.fleet.submit(command)
            if isinstance(command, CreateScope):
                scopes: tuple[str, ...] = (command.scope,)
            else:
                self.silent |= set() if enabled else {command.set}
                scopes = await self._groups(command.set)
            if enabled:
                await self._enable(scopes)
            locations += await self.machines_of(scopes)
        return locations

    async def _groups(self, name: str) -> tuple[str, ...]:
        scale_set = await self.fleet.reader.read(ScaleSet, name)
        return scale_set.groups if scale_set else ()

    async def _enable(self, scopes: Iterable[str]) -> None:
        for name in scopes:
            scope = await self.fleet.reader.read(Scope, name)
            if scope and not scope.enabled:
                await self.fleet.submit(Poll(scope=name, actor="machine"))

    async def enable_set(self, scale_set: str) -> None:
        """Enable the new placement groups of a set, unless the set is silent."""
        if scale_set not in self.silent:
            await self._enable(await self._groups(scale_set))

    def _call_later(self, seconds: float, call: Any) -> None:  # noqa: ANN401  (type of the driver)
        at = self.clock.now() + seconds
        heappush(self._impact_ends, at)
        self.clock.call_at(at, call)

    async def settle(self) -> None:
        """Advance the clock until no event, impact or rollout is left."""
        await self.fleet.settled()
        while await self._busy():
            now = self.clock.now()
            while self._impact_ends and self._impact_ends[0] <= now:
                heappop(self._impact_ends)
            due = await self.fleet.store.next_due()
            times = [at for at in (*self._impact_ends[:1], due) if at is not None]
            await self.fleet.advance(max(min(times, default=now) - now, 1.0))

    async def _busy(self) -> bool:
        if any(scope.events or scope.impacts for scope in await self.scopes()):
            return True
        for name in await self.fleet.store.list_ids(Rollout, "", _PAGE):
            rollout = await self.fleet.reader.read(Rollout, name)
            if rollout and rollout.status is RolloutStatus.RUNNING:
                return True
        return False

    # --- State ---

    async def scopes(self) -> list[Scope]:
        """Return every scope."""
        scopes: list[Scope] = []
        last = ""
        while names := await self.fleet.store.list_ids(Scope, last, _PAGE):
            page = [await self.fleet.reader.read(Scope, name) for name in names]
            scopes += [scope for scope in page if scope]
            last = names[-1]
        return scopes

    async def machines_of(self, scopes: Iterable[str]) -> list[MachineLocation]:
        """Return the machines of scopes, in order."""
        machines: list[MachineLocation] = []
        for name in scopes:
            locations = await self.fleet.reader.find_machines(scope=name)
            machines += sorted(locations, key=lambda location: location.number)
        return machines

    async def active_events(self, name: str) -> list[guest.Event]:
        """Return the events in the document of a scope, without a poll."""
        scope = await self.fleet.reader.read(Scope, name)
        return list(guest.read(document(scope, _ALL_TYPES_VERSION)).events) if scope else []

    async def journal(self) -> list[JournalEntry]:
        """Return the whole journal."""
        entries: list[JournalEntry] = []
        while page := await self.fleet.store.journal(after=len(entries), limit=_PAGE):
            entries += page
        return entries

    # --- Metadata endpoints ---

    def url(self, location: MachineLocation) -> str:
        """Return the endpoint of a machine: a loopback address of its own, or a Unix socket."""
        if not self._sockets:
            return f"http://{loopback_address(location.number)}:{self.port}"
        path = self._socket_paths.get(location.number) or self.run(self._open_socket(location))
        return f"unix:{path}"

    async def _open_socket(self, location: MachineLocation) -> str:
        if self._folder is None:
            # Short, because a socket path has at most about 100 characters.
            self._folder = Path(tempfile.mkdtemp(prefix="fw-"))
        path = self._folder / f"{location.number}.sock"
        machine = for_machine(location.scope, location.machine.name)
        await self._server.listen(open_unix(path), machine)
        self._socket_paths[location.number] = str(path)
        return str(path)


def _closed() -> Refused:
    return Refused("CloudOver", "this cloud is closed; it closes at the end of its test")


def ask(url: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """Send a request as a machine; return status and body."""
    request = HttpRequest(method, path, {"Metadata": "true"}, body, LONGEST_SECONDS)
    try:
        with closing(HttpTransport(endpoint(url))) as transport:
            response = transport.send(request)
    except TimeoutError:
        text = (
            f"no answer within {LONGEST_SECONDS:g} seconds; the request may be waiting for the"
            " virtual clock"
        )
        raise Unavailable("NoAnswer", text) from None
    except OSError as error:
        raise Unavailable("NoAnswer", f"no answer: {error!r}") from error
    return response.status, response.body
