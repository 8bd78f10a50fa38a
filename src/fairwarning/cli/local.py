"""A whole service in this process: store, fleet, drivers, endpoint, console. `up` runs one."""

import fcntl
import json
import os
import secrets
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from fairwarning.cli.sockets import Sockets
from fairwarning.console.doorbell import Doorbell
from fairwarning.core import limits
from fairwarning.core.errors import Refused, Unavailable
from fairwarning.core.model import Machine
from fairwarning.core.record import changed
from fairwarning.machines.process import ProcessDriver
from fairwarning.machines.simulated import SimulatedDriver
from fairwarning.metadata.identity import (
    always,
    by_local_address,
    by_source_address,
    loopback_address,
)
from fairwarning.metadata.listeners import is_loopback, open_tcp
from fairwarning.metadata.server import Server
from fairwarning.service import fleetfile
from fairwarning.service.clock import Clock, RealClock, VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.fleetfile import Applied, FleetFile
from fairwarning.service.lookup import machine_called
from fairwarning.service.metrics import Metric
from fairwarning.service.settings import Settings
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import Place, Store

if TYPE_CHECKING:
    from starlette.types import ASGIApp

Address = tuple[str, int]

_LINUX = sys.platform.startswith("linux")  # elsewhere there are no namespaces for `exec`
START = "start one with `fairwarning up`"
READY = "up.json"  # in the data folder while the service is up
_PAGE = 1000  # machines read at once
_OWNER_ONLY = 0o700


@dataclass(frozen=True)
class Options:
    """What to run, and where."""

    data: Path
    fleet: FleetFile
    memory: bool = False
    metadata: Address = ("127.0.0.1", 8169)
    console: Address = ("127.0.0.1", 8170)
    virtual: bool = False
    sockets: Path | None = None  # a folder for a Unix socket a machine


class Ready(TypedDict):
    """Where a service is: what `up --json` prints before the machines."""

    metadata: str
    console: str
    token: str  # for the console


class Local:
    """The parts, wired; `running` starts them in order and stops them in the other."""

    applied: Applied

    def __init__(self, options: Options) -> None:
        self.options = options
        now = float(int(RealClock().now()))  # whole seconds, as NotBefore has them
        self.clock: Clock = VirtualClock(now) if options.virtual else RealClock()
        simulated = SimulatedDriver(lambda s, call: self.clock.call_at(self.clock.now() + s, call))
        self.programs = ProcessDriver(simulated, self._find, self._open_door, options.data)
        driver = self.programs if _LINUX else simulated
        self.fleet = Fleet(_store(options), self.clock, driver)
        self.server = Server(self.fleet, options.fleet.cloud, _settings(options))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Local"]:
        """Up inside, down after."""
        options = self.options
        async with AsyncExitStack() as stack:
            stack.enter_context(_folder(options))
            metadata = stack.enter_context(open_tcp(*options.metadata))
            console = stack.enter_context(open_tcp(*options.console, exact=True))
            self.metadata_port: int = metadata.getsockname()[1]
            self.console_port: int = console.getsockname()[1]
            await self.fleet.start()
            stack.push_async_callback(self.fleet.stop)
            self.applied = await fleetfile.apply(options.fleet, self.fleet.submit)
            stack.push_async_callback(self.server.stop)
            local = is_loopback(options.metadata[0])
            await self.server.listen(metadata, by_local_address if local else by_source_address)
            if _LINUX:
                await self.programs.listen()
                stack.push_async_callback(self.programs.close)
            if options.sockets:
                sockets = Sockets(options.sockets, self.server, self.fleet)
                stack.callback(sockets.close_all)
                await sockets.open_all()
            self._token = _token(options.data)
            bell = Doorbell(console, self._load_console)
            stack.push_async_callback(bell.close)
            yield self

    def _load_console(self) -> "ASGIApp":
        from fairwarning.console.app import application  # noqa: PLC0415  (see Doorbell)

        return application(self.fleet, self._figures, self._token)

    def _figures(self) -> list[Metric]:
        return [*self.fleet.metrics(), *self.server.metrics()]

    # --- Where things are ---

    def ready(self) -> Ready:
        """What scripts need to know once it is up."""
        return {
            "metadata": _url(self.options.metadata[0], self.metadata_port),
            "console": _url(self.options.console[0], self.console_port),
            "token": self._token,
        }

    async def machines(self) -> AsyncIterator[tuple[str, str]]:
        """Every machine with the URL at which it asks."""
        local = is_loopback(self.options.metadata[0])
        async for place in self._places():
            address = loopback_address(place.number) if local else self.options.metadata[0]
            if address:
                yield place.machine.name, _url(address, self.metadata_port)

    async def _places(self) -> AsyncIterator[Place]:
        last = 0
        while places := await self.fleet.places(last, _PAGE):
            for place in places:
                yield place
            last = places[-1].number

    # --- What the process driver needs ---

    async def _find(self, name: str) -> tuple[str, Machine]:
        place = await machine_called(self.fleet, name)
        return place.scope, place.machine

    async def _open_door(
        self, listener: socket.socket, scope: str, machine: str
    ) -> Callable[[], None]:
        door = await self.server.listen(listener, always(scope, machine))
        return lambda: self.server.close(door)


def _store(options: Options) -> Store:
    if options.memory:
        return MemoryStore()
    from fairwarning.store.sqlite import SQLiteStore  # noqa: PLC0415  (not in memory: no SQLite)

    return SQLiteStore(options.data / "fleet.db")


def _settings(options: Options) -> Settings:
    settings = options.fleet.endpoint
    if settings.requests_per_second is None and not is_loopback(options.metadata[0]):
        return changed(settings, requests_per_second=limits.REQUESTS_PER_SECOND)  # M17
    return settings


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# --- The data folder --------------------------------------------------------------------------


@contextmanager
def _folder(options: Options) -> Iterator[None]:
    """Ours alone while we run; a service in memory that made it leaves nothing of its own."""
    folder = options.data
    made = not folder.exists()
    try:
        folder.mkdir(_OWNER_ONLY, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused("CannotUseFolder", f"cannot use the folder {folder}: {error}") from error
    try:
        _take(lock, folder)
        yield
    finally:
        (folder / READY).unlink(missing_ok=True)
        if options.memory and made:
            _clear(folder)
        os.close(lock)


def _clear(folder: Path) -> None:
    """Remove what a service puts there, and the folder if nothing else is in it."""
    for name in ("lock", "token"):
        (folder / name).unlink(missing_ok=True)
    for name in ("attached", "machines"):
        shutil.rmtree(folder / name, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def _take(lock: int, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        text = f"a service is up in {folder} already; stop it, or name another folder with --data"
        raise Unavailable("AlreadyUp", text) from error


def _token(folder: Path) -> str:
    """The console's token, made at the first start; only the folder's owner can read it."""
    path = folder / "token"
    try:
        return path.read_text("ascii")
    except FileNotFoundError:
        token = secrets.token_urlsafe(32)
        _write(path, token)
        return token


def _write(path: Path, text: str) -> None:
    """All of it or nothing, and for the owner's eyes only."""
    new = path.with_suffix(".new")
    new.touch(0o600)
    new.write_text(text, "utf-8")
    new.replace(path)


def write_ready(folder: Path, ready: Ready) -> None:
    """For the other commands, which look here for the service."""
    _write(folder / READY, json.dumps(ready))


def read_ready(folder: Path) -> Ready:
    """Where the service of this folder is."""
    try:
        ready: Ready = json.loads((folder / READY).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Unavailable("NotUp", f"no service is up in {folder}; {START}") from error
    return ready
